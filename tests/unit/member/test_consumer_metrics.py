"""What a member of the consumer protocol measures: a rebalance goes from a new target to its acknowledgement."""

from __future__ import annotations

from tests.unit.member.consumer_script import ASSIGNED, LOST, REVOKED, Script, ids

from kohort.member import MemberConfig, inputs
from kohort.member.effects import Effect
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.errors import ErrorCode


class Measured(Script):
    """A member that is observed, and a clock."""

    def __init__(self, config: MemberConfig | None = None) -> None:
        self.metrics = RebalanceMetrics(300_000)
        super().__init__(config)

    def take(self, event: inputs.Input) -> list[Effect]:
        before = self.member.state
        asked = super().take(event)
        self.metrics.observe(event, tuple(asked), before, self.member.state, self.now_ms)
        return asked

    def read(self, *names: str) -> list[float]:
        values = self.metrics.values(self.now_ms)
        return [values[name] for name in names]


def stable() -> Measured:
    """A member of epoch 1 whose first callback took 5 ms."""
    script = Measured()
    script.subscribe("t")
    script.now_ms += 30
    script.answered(1, ids(0, 1))
    script.now_ms += 5
    script.finished(ASSIGNED)
    script.now_ms += 10
    script.answered(1)
    return script


def test_a_rebalance_takes_as_long_as_its_callbacks() -> None:
    script = stable()
    assert script.read("rebalance-total", "rebalance-latency-max", "partitions-assigned-latency-max") == [1, 5, 5]
    script.beat()
    script.answered(1, ids(0))
    script.now_ms += 40
    script.finished(REVOKED)
    script.now_ms += 2
    script.finished(ASSIGNED)
    assert script.read("rebalance-total", "rebalance-latency-max", "partitions-revoked-latency-max") == [2, 42, 40]
    assert script.read("last-rebalance-seconds-ago", "failed-rebalance-total") == [0, 0]


def test_heartbeats_are_counted_when_they_are_answered() -> None:
    script = stable()
    assert script.read("heartbeat-total", "heartbeat-response-time-max") == [2, 30]
    script.beat()
    assert script.read("heartbeat-total", "last-heartbeat-seconds-ago") == [2, 0]
    script.now_ms += 3_000
    assert script.read("last-heartbeat-seconds-ago") == [3]


def test_a_rebalance_whose_member_is_fenced_has_failed() -> None:
    script = stable()
    script.beat()
    script.answered(1, ids(0))
    script.beat()
    script.refused(ErrorCode.FENCED_MEMBER_EPOCH)
    script.finished(REVOKED)
    script.now_ms += 7
    script.finished(LOST)
    assert script.read("failed-rebalance-total", "rebalance-total", "partitions-lost-latency-max") == [1, 1, 7]


def test_a_member_that_closes_in_the_middle_has_not_failed() -> None:
    script = stable()
    script.beat()
    script.answered(1, ids(0))
    script.take(inputs.CloseRequested("bye"))
    script.finished(REVOKED)
    assert script.read("failed-rebalance-total", "rebalance-total") == [0, 1]
