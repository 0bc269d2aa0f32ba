"""What a member measures of itself: the metrics of KIP-429, those that Kafka's Java client ships, and ours.

A pure observer: it sees each input, what the member asked for in answer, and the time; the member knows nothing of it.
One object may watch one membership after another. `MEMBER_METRICS` is the table that `docs/metrics.md` is made from.
"""

from __future__ import annotations

from kohort.assign.user_data import assignment_error
from kohort.member import effects, inputs
from kohort.member.effects import Callback, ConsumerHeartbeat, Effect
from kohort.member.inputs import ConsumerHeartbeatAnswered
from kohort.member.member_state import ConsumerState, Identity, State
from kohort.model.errors import ErrorCode
from kohort.model.metric import Metric, MetricKind, MetricTable, Sampled, seconds_since


class RebalanceMetrics:
    """The measurements. A rebalance begins with its first callback or JoinGroup and ends with its last callback.

    More than 20 attributes: each is a count, a time, or where one began.
    """

    def __init__(self, max_poll_interval_ms: int | None = None) -> None:
        self.callbacks = {callback: Sampled() for callback in Callback}
        self.rebalances = Sampled()
        self.rounds = Sampled()
        self.failures = Sampled()
        self.joins = Sampled()
        self.syncs = Sampled()
        self.heartbeats = Sampled()
        self.commits = Sampled()
        self.polls_missed = 0
        self.assignment_failures = 0
        self.assignment_errors = 0
        self.assignment_error = ErrorCode.NONE
        self.rebalanced_ms: int | None = None
        self.heartbeat_ms: int | None = None
        self.poll_deadline_ms: int | None = None
        self._max_poll_interval_ms = max_poll_interval_ms
        self._asked: tuple[Identity, int] | None = None
        self._beat_ms: int | None = None
        self._callback_ms: int | None = None
        self._round_ms: int | None = None
        self._rebalance_ms: int | None = None
        self._is_settling = False

    def observe(
        self,
        event: inputs.Input,
        asked: tuple[Effect, ...],
        before: State | ConsumerState,
        after: State | ConsumerState,
        now_ms: int,
    ) -> None:
        """See one step of the member: `event` took it from `before` to `after`, and it asked for `asked`."""
        self._see_poll(event, now_ms)
        match event:
            case inputs.JoinAnswered() | inputs.SyncAnswered() if self._is_expected(event, before):
                self._see_answer(event, now_ms)
            case inputs.ComputeFailed() if not any(isinstance(effect, effects.Sync) for effect in asked):
                self.assignment_failures += before is State.ASSIGNING
            case inputs.HeartbeatAnswered() | ConsumerHeartbeatAnswered() if self._beat_ms is not None:
                self.heartbeats.record(now_ms - self._beat_ms, now_ms)
                self._beat_ms = None
            case inputs.CallbackFinished() if self._callback_ms is not None:
                if not event.is_abandoned:
                    self.callbacks[event.callback].record(now_ms - self._callback_ms, now_ms)
                self._callback_ms = None
        if isinstance(after, ConsumerState):
            self._see_reconciliation(before, after, now_ms)
        else:
            self._see_end(event, after, now_ms)
        for effect in asked:
            self._see_effect(effect, after, now_ms)

    def callback_began(self, now_ms: int) -> None:
        """Note that the callback only begins now: until here it waited for its user to be done with records."""
        if self._callback_ms is not None:
            self._callback_ms = now_ms

    def commit_answered(self, latency_ms: int, now_ms: int) -> None:
        """Note that a commit was answered."""
        self.commits.record(latency_ms, now_ms)

    def values(self, now_ms: int) -> dict[str, float]:
        """Return every metric of `MEMBER_METRICS` by its name."""
        return _TABLE.values(self, now_ms)

    # The inside

    def _see_poll(self, event: inputs.Input, now_ms: int) -> None:
        if isinstance(event, inputs.PollEntered):
            self.poll_deadline_ms = None
        elif isinstance(event, inputs.PollReturned) and self._max_poll_interval_ms is not None:
            self.poll_deadline_ms = now_ms + self._max_poll_interval_ms

    def _is_expected(self, event: inputs.JoinAnswered | inputs.SyncAnswered, before: State | ConsumerState) -> bool:
        waiting = State.JOINING if isinstance(event, inputs.JoinAnswered) else State.SYNCING
        return before is waiting and self._asked is not None and event.asked_as == self._asked[0]

    def _see_answer(self, event: inputs.JoinAnswered | inputs.SyncAnswered, now_ms: int) -> None:
        assert self._asked is not None, "an expected answer was asked for"
        latency_ms = now_ms - self._asked[1]
        self._asked = None
        if event.error is ErrorCode.MEMBER_ID_REQUIRED:
            return  # KIP-394: half of a join that continues
        if event.error is not ErrorCode.NONE:
            self.failures.record(1, now_ms)
            self.assignment_failures += isinstance(event, inputs.SyncAnswered) and event.error_message is not None
        elif isinstance(event, inputs.JoinAnswered):
            self.joins.record(latency_ms, now_ms)
        else:
            self.syncs.record(latency_ms, now_ms)
            error = assignment_error(event.assignment.user_data)
            self.assignment_error = error or ErrorCode.NONE
            self.assignment_errors += error is not None
            if self._round_ms is not None:
                self.rounds.record(now_ms - self._round_ms, now_ms)
            self._round_ms = None
            self._is_settling = True

    def _see_end(self, event: inputs.Input, after: State, now_ms: int) -> None:
        if self._is_settling and after is not State.COMPLETING:
            self._is_settling = False
            if self._rebalance_ms is not None:
                self.rebalances.record(now_ms - self._rebalance_ms, now_ms)
            self._rebalance_ms = None
            self.rebalanced_ms = now_ms
        is_over = after in (State.LEAVING, State.FATAL, State.CLOSED)
        is_answer = isinstance(event, inputs.JoinAnswered | inputs.SyncAnswered)
        # Fenced in the middle: the time until the member comes back belongs to no rebalance.
        if is_over or (after is State.UNJOINED and not is_answer):
            self._rebalance_ms = self._round_ms = None

    def _see_reconciliation(self, before: State | ConsumerState, after: ConsumerState, now_ms: int) -> None:
        """In the consumer protocol a rebalance goes from a target that is not owned to its acknowledgement."""
        if after is before:
            return
        is_settled = after in (ConsumerState.ACKNOWLEDGING, ConsumerState.STABLE)
        if after is ConsumerState.RECONCILING and self._rebalance_ms is None:
            self._rebalance_ms = now_ms
        elif is_settled and self._rebalance_ms is not None:
            self.rebalances.record(now_ms - self._rebalance_ms, now_ms)
            self.rebalanced_ms, self._rebalance_ms = now_ms, None
        elif self._rebalance_ms is not None:
            if after in (ConsumerState.FENCED, ConsumerState.STALE, ConsumerState.FATAL):
                self.failures.record(1, now_ms)
            self._rebalance_ms = None

    def _see_effect(self, effect: Effect, after: State | ConsumerState, now_ms: int) -> None:
        match effect:
            case effects.RunCallback():
                self._callback_ms = now_ms
                if after is State.PREPARING and self._rebalance_ms is None:
                    self._rebalance_ms = now_ms
            case effects.Join():
                self._asked = (effect.identity, now_ms)
                self._round_ms = now_ms if self._round_ms is None else self._round_ms
                self._rebalance_ms = now_ms if self._rebalance_ms is None else self._rebalance_ms
            case effects.Sync():
                self._asked = (effect.identity, now_ms)
            case effects.Heartbeat() | ConsumerHeartbeat():
                self._beat_ms = self.heartbeat_ms = now_ms
            case effects.PollMissed():
                self.polls_missed += 1
                self.poll_deadline_ms = None


_KIP, _OURS = "KIP-429", "kohort"


def _seconds_left(metrics: RebalanceMetrics, now_ms: int) -> float:
    deadline_ms = metrics.poll_deadline_ms
    return -1 if deadline_ms is None else max(0, deadline_ms - now_ms) / 1000


def _add_rows(table: MetricTable[RebalanceMetrics]) -> None:
    for callback in Callback:

        def of(metrics: RebalanceMetrics, callback: Callback = callback) -> Sampled:
            return metrics.callbacks[callback]

        text = f"How long `on_partitions_{callback}` of the user's listener took"
        table.averages(f"partitions-{callback}-latency", of, text, _KIP)
        table.averages(f"partition-{callback}-latency", of, text)
    text = (
        "How long a rebalance took, from its first callback or JoinGroup (in the consumer protocol: from a new target)"
        " until its last callback had finished,"
    )
    table.averages("rebalance-latency", lambda m: m.rebalances, text, _KIP, all_of="rebalances")
    text = "How long a round took, from the first JoinGroup to SyncGroup's answer, without callbacks,"
    table.averages("round-latency", lambda m: m.rounds, text, _OURS, all_of="rounds")
    table.frequency("rebalance", lambda m: m.rebalances, "Rebalances that came to an end", is_hourly=True)
    what = "Answers to JoinGroup and SyncGroup that sent the member back"
    table.frequency("failed-rebalance", lambda m: m.failures, what, is_hourly=True)
    text = "Since the last rebalance that came to an end; −1 before the first."
    table.gauge("last-rebalance-seconds-ago", lambda m, now_ms: seconds_since(m.rebalanced_ms, now_ms), text, "s", _KIP)
    _add_wire_rows(table)
    _add_own_rows(table)


def _add_wire_rows(table: MetricTable[RebalanceMetrics]) -> None:
    text = "How long the answer to a heartbeat took at most. A broker that parks heartbeats takes up to their interval."
    greatest = Metric("heartbeat-response-time-max", MetricKind.MAXIMUM, "ms", "Kafka", text)
    table.add(greatest, lambda m, now_ms: m.heartbeats.greatest(now_ms))
    table.frequency("heartbeat", lambda m: m.heartbeats, "Heartbeats answered")
    text = "Since the last heartbeat was sent; −1 before the first."
    table.gauge("last-heartbeat-seconds-ago", lambda m, now_ms: seconds_since(m.heartbeat_ms, now_ms), text, "s")
    table.averages("join-time", lambda m: m.joins, "How long a JoinGroup took that was answered")
    table.frequency("join", lambda m: m.joins, "JoinGroups that made this a member of a generation")
    table.averages("sync-time", lambda m: m.syncs, "How long a SyncGroup took that was answered")
    table.frequency("sync", lambda m: m.syncs, "SyncGroups that brought an assignment")
    table.averages("commit-latency", lambda m: m.commits, "How long a commit took, retries included,")
    table.frequency("commit", lambda m: m.commits, "Commits that were answered")


def _add_own_rows(table: MetricTable[RebalanceMetrics]) -> None:
    doc = "Until the user must be back in `poll`; −1 while it is there or no deadline is set."
    table.add(Metric("poll-deadline-seconds-left", MetricKind.GAUGE, "s", _OURS, doc), _seconds_left)
    doc = "How often the user came back too late."
    table.add(Metric("poll-deadlines-missed-total", MetricKind.TOTAL, "count", _OURS, doc), lambda m, _: m.polls_missed)
    doc = "Rounds that ended because the leader could not assign."
    table.add(
        Metric("assignment-failures-total", MetricKind.TOTAL, "count", _OURS, doc), lambda m, _: m.assignment_failures
    )
    doc = "The error code in the last assignment: 0, or what the leader says about this member (an outdated protocol)."
    table.add(Metric("assignment-error-code", MetricKind.GAUGE, "code", _OURS, doc), lambda m, _: m.assignment_error)
    doc = "Assignments that carried an error code."
    table.add(
        Metric("assignment-errors-total", MetricKind.TOTAL, "count", _OURS, doc), lambda m, _: m.assignment_errors
    )


_TABLE = MetricTable[RebalanceMetrics]()
_add_rows(_TABLE)
MEMBER_METRICS = _TABLE.metrics
