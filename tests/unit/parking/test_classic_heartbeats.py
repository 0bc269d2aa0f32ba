"""Parking of classic heartbeats without a broker: requests, timers and answers are all that it is given."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kohort.model.errors import ErrorCode
from kohort.node.timers import Timers
from kohort.parking.classic_heartbeats import ClassicParking
from kohort.parking.client_software import JAVA, KGO, software_named
from kohort.parking.parked_heartbeat import Follower, ParkedHeartbeat, follower_of
from kohort.wire.messages import HeartbeatRequest, LeaveGroupRequest, OffsetCommitRequest

SESSION_MS, INTERVAL_MS = 45_000, 3_000


@dataclass(frozen=True)
class Answer:
    error: ErrorCode
    is_quiet: bool = False


ALIVE, REJOIN = Answer(ErrorCode.NONE), Answer(ErrorCode.REBALANCE_IN_PROGRESS)


class Group:
    """A group whose answer to every heartbeat is `answer`."""

    def __init__(self) -> None:
        self.answer = Answer(ErrorCode.NONE, is_quiet=True)
        self.timers = Timers()
        self.now_ms = 0
        self.announced: list[int] = []
        self.answers: dict[str, list[Answer]] = {}
        self.parking: ClassicParking[HeartbeatRequest, Answer] = ClassicParking(
            self.timers, lambda *_: self.answer, Answer, lambda _, waited_ms, __: self.announced.append(waited_ms)
        )

    def heartbeat(
        self, member_id: str, software: str = "", version: str = "9"
    ) -> ParkedHeartbeat[HeartbeatRequest, Answer] | None:
        request = HeartbeatRequest(group_id="g", member_id=member_id)
        answers = self.answers.setdefault(member_id, [])
        parked = self.parking.park(
            request, self.answer, answers.append, SESSION_MS, self.now_ms, client=software_named(software, version)
        )
        if parked is None:
            answers.append(self.answer)
        return parked

    def commit_by_timer(self, member_id: str) -> None:
        """Have a member commit three times, so that its timer is due at the next multiple of 2,999 ms after 0."""
        self.parking.begin(member_id, 0)
        for number in range(1, 4):
            self.now_ms = number * (INTERVAL_MS - 1)
            self.parking.committed(member_id, self.now_ms)

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self.timers.run_due(self.now_ms)

    def settle(self, *member_ids: str) -> list[ParkedHeartbeat[HeartbeatRequest, Answer]]:
        """Have each member send a heartbeat an interval after its assignment."""
        for member_id in member_ids:
            self.parking.begin(member_id, self.now_ms)
        self.advance(INTERVAL_MS)
        found = [self.heartbeat(member_id) for member_id in member_ids]
        return [parked for parked in found if parked is not None]

    def change(self, answer: Answer, *, is_gathering: bool) -> None:
        self.answer = answer
        self.parking.group_changed("g", self.now_ms, is_gathering=is_gathering)


def test_heartbeat_is_parked_until_its_group_has_an_update() -> None:
    group = Group()
    assert len(group.settle("a", "b")) == len(group.parking) == 2
    group.change(REJOIN, is_gathering=True)
    assert group.answers == {"a": [REJOIN], "b": [REJOIN]}
    assert len(group.parking) == 0


def test_members_that_stop_learn_of_a_round_once_all_are_reached() -> None:
    group = Group()
    group.settle("a", "b")
    group.parking.announce("g", {"a", "b", "c"}, frozenset("abc"), group.now_ms + 60_000, group.now_ms)
    group.change(REJOIN, is_gathering=True)
    assert group.answers == {"a": [], "b": []}
    group.advance(500)
    group.heartbeat("c")
    assert group.answers == {"a": [REJOIN], "b": [REJOIN], "c": [REJOIN]}
    assert group.announced == [500]


def group_whose_last_silent_member_comes_late() -> tuple[Group, ParkedHeartbeat[HeartbeatRequest, Answer]]:
    """Return a group of `a`, out of reach since its commit, and `b`, whose first heartbeat since the round waits."""
    group = Group()
    group.commit_by_timer("b")
    first, _ = group.settle("a", "c")
    group.parking.announce("g", set("abc"), frozenset("abc"), group.now_ms + 60_000, group.now_ms)
    group.change(REJOIN, is_gathering=True)
    group.advance(INTERVAL_MS)
    assert not first.followed(Follower.COMMIT, group.now_ms)
    late = group.heartbeat("b")
    assert late is not None
    return group, late


def test_member_that_sent_nothing_for_long_waits_for_those_that_are_not_reached_when_it_comes() -> None:
    group, late = group_whose_last_silent_member_comes_late()
    group.advance(INTERVAL_MS - 1)
    assert late.followed(Follower.COMMIT, group.now_ms), "its timer sends it"
    group.heartbeat("a")
    assert group.answers == {"a": [ALIVE, REJOIN], "b": [REJOIN], "c": [REJOIN]}


def test_round_is_announced_an_interval_after_its_last_member_sent_something() -> None:
    group, _ = group_whose_last_silent_member_comes_late()
    for _ in range(2):
        group.advance(INTERVAL_MS // 2 + 25)
    assert group.answers["b"] == [REJOIN]
    assert group.announced == [2 * INTERVAL_MS + 50]


def test_members_of_shorter_intervals_wait_for_the_longest_one_of_their_round() -> None:
    """Answered before, one of them would be out of reach when the last comes: a round of 5.3 s, seed 304701."""
    group = Group()
    group.parking.announce("g", {"slow", "fast"}, frozenset({"slow", "fast"}), 60_000, 0)
    group.parking.begin("fast", 0)
    group.change(REJOIN, is_gathering=True)
    group.advance(1_000)
    fast = group.heartbeat("fast", "kgo")
    assert fast is not None
    group.advance(1_500)
    assert fast.followed(Follower.COMMIT, group.now_ms)
    group.advance(500)
    group.heartbeat("slow", "kgo")
    assert group.answers == {"fast": [REJOIN], "slow": [REJOIN]}


def test_member_whose_interval_is_only_guessed_waits_for_the_others_of_its_round() -> None:
    """librdkafka's clock runs through a rebalance: its first heartbeat comes sooner than the next, seed 180000022."""
    group = Group()
    group.parking.announce("g", {"guessed", "other"}, frozenset({"guessed", "other"}), 60_000, 0)
    group.parking.begin("guessed", 0)
    group.change(REJOIN, is_gathering=True)
    group.advance(500)
    group.heartbeat("guessed", "librdkafka")
    group.advance(500)
    group.heartbeat("other", "librdkafka")
    assert group.answers == {"guessed": [REJOIN], "other": [REJOIN]}


def test_commit_of_a_closing_member_is_answered_at_once_also_while_a_round_is_announced() -> None:
    group = Group()
    group.commit_by_timer("a")
    closing, _ = group.settle("a", "b")
    group.parking.announce("g", set("abc"), frozenset("abc"), group.now_ms + 60_000, group.now_ms)
    group.change(REJOIN, is_gathering=True)
    group.advance(500)
    assert not closing.followed(Follower.COMMIT, group.now_ms)
    assert group.answers == {"a": [ALIVE], "b": []}  # it leaves next; if not, it continues to read as the others do


def group_in_its_first_interval(*, later_ms: int) -> tuple[Group, ParkedHeartbeat[HeartbeatRequest, Answer]]:
    """Return a group in a round, half a second after the first heartbeat of `a`: that of `b` is to come so much later.

    The program of `a` commits, and its timer seldom does.
    """
    group = Group()
    group.commit_by_timer("a")
    group.parking.begin("a", group.now_ms)
    group.parking.begin("b", group.now_ms + 500 + later_ms)
    group.advance(INTERVAL_MS)
    group.parking.announce("g", {"a", "b"}, frozenset("ab"), group.now_ms + 60_000, group.now_ms - 100)
    group.change(REJOIN, is_gathering=True)
    parked = group.heartbeat("a")
    assert parked is not None
    group.advance(500)
    return group, parked


def test_member_that_seldom_commits_learns_alone_where_the_last_one_comes_soon() -> None:
    """Its next heartbeat would come an interval later, and the round with it: seed 920003344."""
    group, parked = group_in_its_first_interval(later_ms=1)
    assert not parked.followed(Follower.COMMIT, group.now_ms)
    assert group.answers == {"a": [REJOIN]}


def test_member_that_seldom_commits_reads_on_where_the_last_one_comes_late() -> None:
    group, parked = group_in_its_first_interval(later_ms=INTERVAL_MS // 2 + 1)
    assert not parked.followed(Follower.COMMIT, group.now_ms)
    assert group.answers == {"a": [ALIVE]}


def test_member_whose_connection_breaks_is_awaited_for_longer_than_an_interval() -> None:
    group = Group()
    _, broken = group.settle("a", "c")
    group.parking.announce("g", set("abc"), frozenset("abc"), group.now_ms + 60_000, group.now_ms)
    group.change(REJOIN, is_gathering=True)
    broken.drop()
    group.heartbeat("b")
    for _ in range(3):
        group.advance(INTERVAL_MS)
    assert group.announced == []
    group.heartbeat("c")
    group.heartbeat("a")
    group.heartbeat("b")
    assert group.announced == [3 * INTERVAL_MS]


def test_answered_or_dropped_heartbeat_takes_no_further_part() -> None:
    group = Group()
    first, second = group.settle("a", "b")
    assert not first.followed(Follower.COMMIT, group.now_ms)
    second.drop()
    for parked in (first, second):
        parked.release(group.now_ms)
        parked.drop()
        assert parked.parking is None
    assert group.answers == {"a": [group.answer], "b": []}
    assert group.timers.next_deadline_ms() is None


def test_requests_behind_a_heartbeat_are_classified_by_their_sender() -> None:
    own = HeartbeatRequest(group_id="g", member_id="a")
    assert follower_of(own, HeartbeatRequest(group_id="g", member_id="a"), OffsetCommitRequest) is Follower.HEARTBEAT
    assert follower_of(own, OffsetCommitRequest(group_id="g", member_id="a"), OffsetCommitRequest) is Follower.COMMIT
    assert follower_of(own, OffsetCommitRequest(group_id="g", member_id="b"), OffsetCommitRequest) is Follower.OTHER
    assert follower_of(own, LeaveGroupRequest(group_id="g"), OffsetCommitRequest) is Follower.OTHER


def test_a_round_reaches_a_member_that_is_younger_than_its_first_interval() -> None:
    group = Group()
    group.parking.begin("m", 0)
    assert group.heartbeat("m", "kohort") is not None
    group.change(REJOIN, is_gathering=True)
    assert group.answers["m"] == [REJOIN]


def test_the_first_heartbeat_is_answered_before_the_second_is_due() -> None:
    group = Group()
    group.parking.begin("m", 0)
    group.heartbeat("m", "kohort")
    group.advance(INTERVAL_MS - 1)
    assert group.answers["m"] == [Answer(ErrorCode.NONE, is_quiet=True)]


def settled(software: str) -> Group:
    """Return a group whose member `m` has sent three heartbeats, of which the last is parked."""
    group = Group()
    group.parking.begin("m", 0)
    for _ in range(3):
        group.advance(INTERVAL_MS)
        group.heartbeat("m", software)
    assert group.parking.is_parked("g", "m")
    group.answers["m"].clear()
    return group


def commit(group: Group, software: str) -> None:
    """Have the member `m` commit behind its parked heartbeat, and send that again if it is to."""
    parked = group.parking._groups["g"].parked["m"]
    if not parked.followed(Follower.COMMIT, group.now_ms) and group.answers["m"][-1].error:
        group.advance(100)
        group.heartbeat("m", software)


@pytest.mark.parametrize(
    ("software", "error"), [(JAVA, ErrorCode.REQUEST_TIMED_OUT), (KGO, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
)
def test_heartbeat_that_a_commit_ends_is_sent_again_and_parked(software: str, error: ErrorCode) -> None:
    group = settled(software)
    group.advance(100)
    commit(group, software)
    assert group.answers["m"] == [Answer(error)]
    group.change(REJOIN, is_gathering=True)
    assert group.answers["m"] == [Answer(error), REJOIN]


@pytest.mark.parametrize("first_ms", [INTERVAL_MS, 500])
def test_the_first_heartbeat_of_kgo_is_parked_and_sent_again_for_a_commit(first_ms: int) -> None:
    """A cooperative member of kgo sends one half a second after its assignment too."""
    group = Group()
    group.parking.begin("m", 0)
    group.advance(first_ms)
    parked = group.heartbeat("m", KGO)
    assert parked is not None
    group.advance(100)
    parked.followed(Follower.COMMIT, group.now_ms)
    assert group.answers["m"] == [Answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]


@pytest.mark.parametrize("is_committing", [True, False])
def test_kgo_is_parked_beside_a_client_that_is_out_of_reach_only_if_no_commit_ends_that(is_committing: bool) -> None:
    """No error ends its wait in such a group, and after a success its next heartbeat is an interval away."""
    group = Group()
    for member_id in ("kgo", "other"):
        group.parking.begin(member_id, 0)
    group.advance(COMMIT_MS)
    if is_committing:
        group.parking.committed("kgo", group.now_ms)
    while group.now_ms < 3 * INTERVAL_MS:
        group.advance(250)
        group.parking.committed("other", group.now_ms)
    other = group.heartbeat("other", "kafka-python")
    assert other is not None
    other.followed(Follower.COMMIT, group.now_ms)
    assert (group.heartbeat("kgo", KGO) is None) is is_committing


@pytest.mark.parametrize("commits", [1, 2])
def test_a_first_commit_soon_after_its_member_was_seen_does_not_keep_the_others_out_of_reach(commits: int) -> None:
    """It may be one of a timer, which runs since the client was started."""
    group = Group()
    for member_id in ("new", "other"):
        group.parking.begin(member_id, 0)
    for _ in range(commits):
        group.advance(1_000)
        group.parking.committed("new", group.now_ms)
    group.advance(INTERVAL_MS - group.now_ms)
    assert group.heartbeat("new", KGO) is None
    other = group.heartbeat("other", JAVA)
    assert other is not None
    other.followed(Follower.COMMIT, group.now_ms)
    assert (group.answers["other"][-1].error is ErrorCode.REQUEST_TIMED_OUT) is (commits == 1)


def test_a_member_is_answered_without_an_error_within_each_third_of_its_session() -> None:
    group, began_ms, quiet = settled(JAVA), 0, Answer(ErrorCode.NONE, is_quiet=True)
    began_ms = group.now_ms
    while group.answers["m"][-1:] != [quiet]:
        group.advance(100)
        if group.parking.is_parked("g", "m"):
            commit(group, JAVA)
    assert group.now_ms - began_ms <= SESSION_MS // 3 + INTERVAL_MS
    assert group.answers["m"].count(Answer(ErrorCode.REQUEST_TIMED_OUT)) == len(group.answers["m"]) - 1 > 10


def test_a_heartbeat_is_not_sent_again_where_the_next_one_is_near() -> None:
    group = settled(JAVA)
    group.advance(INTERVAL_MS - 300)
    commit(group, JAVA)
    assert group.answers["m"] == [Answer(ErrorCode.NONE, is_quiet=True)]


def test_a_member_that_sends_its_heartbeat_again_without_a_pause_is_not_made_to_do_so_again() -> None:
    group = settled(JAVA)
    group.advance(100)
    parked = group.parking._groups["g"].parked["m"]
    parked.followed(Follower.COMMIT, group.now_ms)
    again = group.heartbeat("m", JAVA)
    assert again is not None
    again.followed(Follower.COMMIT, group.now_ms)
    assert group.answers["m"] == [Answer(ErrorCode.REQUEST_TIMED_OUT), Answer(ErrorCode.NONE, is_quiet=True)]


@pytest.mark.parametrize("software", ["librdkafka", "confluent-kafka-python", "platformatic-kafka"])
def test_commits_of_a_client_that_matches_answers_by_id_leave_its_heartbeat_parked(software: str) -> None:
    group = settled(software)
    for _ in range(20):
        group.advance(10)
        commit(group, software)
    assert group.answers["m"] == []
    group.change(REJOIN, is_gathering=True)
    assert group.answers["m"] == [REJOIN]


def test_a_client_of_which_nothing_is_known_gets_no_error() -> None:
    for software in ("", "sarama", "aiokafka"):
        group = settled(software)
        group.advance(100)
        commit(group, software)
        assert group.answers["m"] == [Answer(ErrorCode.NONE, is_quiet=True)]


@pytest.mark.parametrize(("other_ms", "answer"), [(2_900, ErrorCode.REQUEST_TIMED_OUT), (100, REJOIN.error)])
def test_a_member_that_commits_reads_on_if_it_is_back_before_the_last_one(other_ms: int, answer: ErrorCode) -> None:
    """Else it stands still for up to an interval, until the others learn of the round."""
    group = settled(JAVA)
    group.parking.committed("m", group.now_ms)
    group.advance(200)
    group.parking.committed("m", group.now_ms)  # a program waits for its commits
    group.parking.begin("other", group.now_ms + other_ms - INTERVAL_MS)
    group.parking.announce("g", {"m", "other"}, frozenset({"m", "other"}), group.now_ms + 60_000, group.now_ms)
    group.change(REJOIN, is_gathering=True)
    commit(group, JAVA)
    assert group.answers["m"] == [Answer(answer)]


COMMIT_MS = 5_000


def committing_by_timer(software: str, version: str = "9") -> tuple[Group, ParkedHeartbeat[HeartbeatRequest, Answer]]:
    """Return a member's parked heartbeat at the time of the fifth commit of its timer, whose trial was the fourth."""
    group, parked = Group(), None
    group.parking.begin("m", 0)
    for now_ms in range(1_000, 5 * COMMIT_MS + 1, 1_000):
        group.advance(now_ms - group.now_ms)
        if now_ms % INTERVAL_MS == 0:
            parked = group.heartbeat("m", software, version)
        if now_ms % COMMIT_MS == 0 and now_ms < 5 * COMMIT_MS:
            if parked is not None:
                parked.followed(Follower.COMMIT, now_ms)
            group.parking.committed("m", now_ms)
    assert parked is not None
    return group, parked


def test_the_answer_to_a_timer_s_commit_is_delayed_by_default_where_no_close_waits_for_it() -> None:
    group, parked = committing_by_timer("kafka-python")
    assert parked.followed(Follower.COMMIT, group.now_ms)
    group.change(REJOIN, is_gathering=True)
    assert group.answers["m"][-1] == REJOIN


@pytest.mark.parametrize(("software", "version"), [("aiokafka", ""), ("", ""), ("kafka-python", "2.0.2"), ("x", "1")])
def test_the_answer_to_a_commit_is_delayed_for_no_other_client_by_default(software: str, version: str) -> None:
    group, parked = committing_by_timer(software, version)
    assert not parked.followed(Follower.COMMIT, group.now_ms)


@pytest.mark.parametrize("after_ms", [0, 100, 1_000, 2_500])
def test_a_close_waits_for_nothing_that_is_delayed(after_ms: int) -> None:
    """Its commit comes at another time than the timer's, and then its LeaveGroup, or the connection ends."""
    for follower in (Follower.COMMIT, Follower.OTHER):
        group, parked = committing_by_timer("kafka-python")
        assert parked.followed(Follower.COMMIT, group.now_ms)
        group.parking.committed("m", group.now_ms)
        group.advance(after_ms)
        assert not parked.followed(follower, group.now_ms)
        assert not parked.is_parked


def test_a_program_that_commits_each_batch_waits_for_no_commit() -> None:
    group = Group()
    group.parking.begin("m", 0)
    parked = None
    for now_ms in range(130, 40_000, 130):
        group.advance(now_ms - group.now_ms)
        if now_ms % INTERVAL_MS < 130:
            parked = group.heartbeat("m", "kafka-python")
        if parked is not None:
            assert not parked.followed(Follower.COMMIT, now_ms)
        group.parking.committed("m", now_ms)


def test_a_commit_ends_a_heartbeat_with_the_round_where_the_intervals_of_others_are_only_guessed() -> None:
    """Without parking its member learns by this heartbeat; by the next one it might be the last of its group."""
    group = Group()
    for member_id in "ab":
        group.parking.begin(member_id, 0)
    while group.now_ms < INTERVAL_MS:
        group.advance(250)
        group.parking.committed("a", group.now_ms)
    group.parking.announce("g", set("ab"), frozenset("ab"), group.now_ms + 60_000, group.now_ms)
    group.change(REJOIN, is_gathering=True)
    parked = group.heartbeat("a", "kafka-python")
    assert parked is not None
    group.advance(250)
    assert not parked.followed(Follower.COMMIT, group.now_ms)
    assert group.answers["a"] == [REJOIN]


def test_a_program_that_works_for_five_seconds_and_commits_waits_once_and_for_half_a_second() -> None:
    group = Group()
    group.parking.begin("m", 0)
    parked, waited_ms, commit_ms, is_waiting = None, [0], COMMIT_MS, False
    for now_ms in range(100, 60_000, 100):
        group.advance(100)
        if parked is not None and not parked.is_parked:
            if is_waiting:
                waited_ms[-1], commit_ms, is_waiting = now_ms - commit_ms, now_ms + COMMIT_MS, False
            parked = None
        if now_ms % INTERVAL_MS == 0:
            parked = group.heartbeat("m", "kafka-python")
        if now_ms == commit_ms:
            is_waiting = parked is not None and parked.followed(Follower.COMMIT, now_ms)
            group.parking.committed("m", now_ms)
            if not is_waiting:
                commit_ms = now_ms + COMMIT_MS
            else:
                waited_ms.append(0)
    assert len(waited_ms) == 2
    assert waited_ms[-1] <= 500


def test_in_a_mixed_group_half_of_which_takes_commits_ahead_all_learn_of_a_round_together() -> None:
    group = Group()
    clients = {"a": "librdkafka", "b": "kafka-python", "c": "confluent-kafka-go", "d": ""}
    for member_id in clients:
        group.parking.begin(member_id, 0)
    for _ in range(3):
        group.advance(INTERVAL_MS)
        parked = {member_id: group.heartbeat(member_id, software) for member_id, software in clients.items()}
    out_of_reach = parked.pop("d")
    assert out_of_reach is not None
    assert not out_of_reach.followed(Follower.COMMIT, group.now_ms)
    group.parking.announce("g", clients, frozenset(clients), group.now_ms + 60_000, group.now_ms)
    group.change(REJOIN, is_gathering=True)
    group.advance(100)
    for each in parked.values():
        assert each is not None
        assert each.followed(Follower.COMMIT, group.now_ms)
    group.heartbeat("d")
    assert [answers[-1] for answers in group.answers.values()] == [REJOIN] * 4


def test_a_flood_of_heartbeats_and_commits_gets_the_error_once() -> None:
    group = settled(JAVA)
    group.advance(100)
    parked = group.parking._groups["g"].parked["m"]
    for _ in range(1_000):
        parked.followed(Follower.COMMIT, group.now_ms)
        again = group.heartbeat("m", JAVA)
        if again is None:
            break
        parked = again
        group.advance(1)
    assert group.answers["m"].count(Answer(ErrorCode.REQUEST_TIMED_OUT)) == 1
