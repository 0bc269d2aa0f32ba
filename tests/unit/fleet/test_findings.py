"""Each rule on the least that makes it speak, and on what only looks like it."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from typing import Any

from tests.tidy.tree import ROOT

from kohort.fleet.findings import DEFAULTS, NAMES, Facts, judge
from kohort.fleet.findings.facts import CommitOf, EventOf, HourOf, duration_text
from kohort.fleet.findings.protocol_change import estimate
from kohort.fleet.fold.fold import fold
from kohort.fleet.fold.folded_group import FoldedRecord, Group, Violations

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = 100 * DAY


def facts(**more: Any) -> Facts:
    return Facts("s", "g", NOW, **({"first_seen_ms": NOW - 20 * DAY, "last_seen_ms": NOW} | more))


def names(group_facts: Facts) -> set[str]:
    return {finding.finding for finding in judge(group_facts, DEFAULTS)}


def event(at_ms: int, name: str, client: str = "c", **more: Any) -> EventOf:
    given = dict.fromkeys(EventOf._fields) | {"partition": 0, "offset": at_ms, "at_ms": at_ms, "event": name}
    detail = more.pop("detail", None)
    return EventOf(
        **(given | {"client_id": client, "host": "/h", "detail": None if detail is None else json.dumps(detail)} | more)
    )


def hour(at_ms: int, rebalances: int = 0, commits: int = 0) -> HourOf:
    return HourOf(at_ms, rebalances, commits, 0.0, 0, 0)


# -- rebalance storm


def stormy(span_ms: int, hours: int) -> Facts:
    began = NOW - 10 * HOUR
    rounds = [event(began + n * span_ms // 40, "epoch_bumped", epoch=n) for n in range(41)]
    return facts(hours=[hour(began + n * HOUR, rebalances=20) for n in range(hours)], events=rounds)


def test_many_rebalances_an_hour_for_hours_are_a_storm() -> None:
    (finding,) = judge(stormy(2 * HOUR - 1, 2), DEFAULTS)
    assert (finding.finding, finding.severity, finding.value) == ("rebalance_storm", "warning", 20.0)
    assert finding.sentence == "40 rebalances in 2 hours, up to 20 in an hour"
    assert len(finding.evidence) == DEFAULTS.evidence_rows


def test_as_many_within_minutes_are_a_deployment() -> None:
    assert names(stormy(20 * MINUTE, 2)) == set()


def test_a_storm_that_continues_is_critical() -> None:
    began = NOW - 2 * HOUR
    rounds = [event(began + n * 3 * MINUTE, "generation_formed", epoch=n) for n in range(40)]
    group_facts = facts(hours=[hour(began, 20), hour(began + HOUR, 20)], events=rounds)
    assert [finding.severity for finding in judge(group_facts, DEFAULTS)] == ["critical"]


# -- poll timeouts


def stays(count: int, length_ms: int, absence_ms: int = MINUTE, hosts: int = 1) -> Facts:
    at_ms, group_facts = NOW - DAY, []
    for number in range(count):
        who = {"member": f"m-{number}", "host": f"/h{number % hosts}"}
        group_facts.append(event(at_ms, "joined", detail={"rebalance_timeout_ms": 300_000}, **who))
        at_ms += length_ms
        group_facts.append(event(at_ms, "left", **who))
        at_ms += absence_ms
    return facts(events=group_facts)


def test_stays_of_one_poll_interval_again_and_again_are_a_loop() -> None:
    (finding,) = judge(stays(5, 310_000), DEFAULTS)
    assert (finding.finding, finding.value) == ("poll_timeout_loop", 5.0)
    assert finding.sentence == (
        "c on /h0 left 5 times when its max.poll.interval.ms of 5 minutes was over, and joined again each time"
    )


def test_stays_that_end_sooner_are_none() -> None:
    assert names(stays(9, 60_000)) == set()


def test_stays_that_last_much_longer_are_none() -> None:
    assert names(stays(9, 900_000)) == set()


def test_stays_on_different_hosts_are_a_deployment() -> None:
    assert names(stays(8, 310_000, hosts=8)) == set()


def test_long_absences_between_joins_are_no_poll_loop() -> None:
    assert names(stays(6, 310_000, absence_ms=HOUR)) == set()


def test_a_member_that_leaves_at_the_next_poll_and_is_back_at_once_is_in_a_loop() -> None:
    group_facts = stays(4, 700_000, absence_ms=5)
    assert names(group_facts) == set()  # processes that die and are started again
    one = [each._replace(member="m") for each in group_facts.events]
    assert names(facts(events=one)) == {"poll_timeout_loop"}


# -- instances


def taken(count: int, pause_ms: int) -> Facts:
    return facts(events=[event(NOW - DAY + n * pause_ms, "rejoined", instance="i-1") for n in range(count)])


def test_an_instance_that_is_taken_over_all_the_time_flaps() -> None:
    assert names(taken(6, 5 * MINUTE)) == {"flapping_instance"}


def test_an_instance_that_is_restarted_every_day_does_not() -> None:
    assert names(taken(30, DAY // 8)) == set()


# -- stuck groups


def test_a_rebalance_that_runs_for_an_hour_is_stuck() -> None:
    group_facts = facts(
        kind="consumer",
        state="Reconciling",
        members=2,
        running_since_ms=NOW - HOUR,
        events=[event(NOW - HOUR, "revoking")],
    )
    (finding,) = judge(group_facts, DEFAULTS)
    assert finding.finding == "stuck_group"
    assert finding.sentence == "a rebalance has been running for 60 minutes: it waits for c to revoke partitions"


def test_a_member_that_has_revoked_or_left_is_not_waited_for() -> None:
    happened = [("revoking", "a"), ("revoking", "b"), ("revoking", "c"), ("revoked", "a"), ("evicted", "b")]
    group_facts = facts(
        kind="consumer",
        state="Reconciling",
        members=2,
        running_since_ms=NOW - HOUR,
        events=[event(NOW - HOUR + n, what, member=who, client_id=who) for n, (what, who) in enumerate(happened)],
    )
    (finding,) = judge(group_facts, DEFAULTS)
    assert finding.sentence == "a rebalance has been running for 60 minutes: it waits for c to revoke partitions"


def test_a_rebalance_of_some_minutes_is_not() -> None:
    assert names(facts(state="Reconciling", members=2, running_since_ms=NOW - 10 * MINUTE)) == set()


def silent(silence_ms: int, habit_ms: int = HOUR, members: int = 2) -> Facts:
    last = NOW - silence_ms
    hours = [hour(last - n * habit_ms, commits=5) for n in range(20, 0, -1)]
    return facts(state="Stable", members=members, last_commit_ms=last, hours=hours)


def test_members_that_have_ceased_to_commit_are_stuck() -> None:
    assert names(silent(8 * HOUR)) == {"stuck_group"}


def test_a_group_that_has_nothing_left_to_read_is_not_stuck() -> None:
    assert names(replace(silent(8 * HOUR), lag=1)) == {"stuck_group"}
    assert names(replace(silent(8 * HOUR), lag=0)) == set()


def test_a_time_without_commits_like_those_before_is_a_habit() -> None:
    assert names(silent(15 * HOUR, habit_ms=10 * HOUR)) == set()


def test_a_group_without_members_is_not_stuck() -> None:
    assert names(silent(8 * HOUR, members=0)) == set()


# -- commits


def went_back(count: int, pause_ms: int) -> Facts:
    return facts(
        members=1, returns=[CommitOf(3, n, NOW - DAY + n * pause_ms, "t", 1, 10, 500, 7) for n in range(count)]
    )


def test_offsets_that_go_back_and_forth_are_those_of_two() -> None:
    (finding,) = judge(went_back(3, MINUTE), DEFAULTS)
    assert finding.finding == "zombie_commits"
    assert finding.evidence[0].what == "t-1 from 500 back to 10 by producer 7"


def test_offsets_that_are_reset_now_and_then_are_an_admins() -> None:
    assert names(went_back(5, DAY // 6)) == {"rewound_offsets"}


def test_offsets_that_a_tool_resets_again_and_again_are_no_zombies() -> None:
    """kafka-consumer-groups --reset-offsets takes a group without members only."""
    assert names(replace(went_back(3, MINUTE), members=0)) == {"rewound_offsets"}


def test_a_group_has_no_members_between_its_last_leave_and_the_next_join() -> None:
    away = replace(went_back(3, MINUTE), events=[event(NOW - 2 * DAY, "emptied"), event(NOW, "joined")])
    assert names(away) == {"rewound_offsets"}
    came = replace(away, events=[event(NOW - 2 * DAY, "joined")])
    assert names(came) == {"zombie_commits"}


# -- assignments


def shares(kind: str = "consumer", since_ms: int = DAY, **more: Any) -> Facts:
    changes = [event(NOW - since_ms, "settled")]
    return facts(kind=kind, state="Stable", strategy="range", events=changes, **more)


def test_members_beyond_the_partitions_are_idle() -> None:
    (finding,) = judge(shares(members=6, partitions=4, idle_members=2, largest_share=1), DEFAULTS)
    assert finding.sentence == "2 of 6 members have nothing: there are 4 partitions"


def test_sentences_about_one_member_use_the_singular() -> None:
    (idle,) = judge(shares(members=2, partitions=1, idle_members=1, largest_share=1), DEFAULTS)
    assert idle.sentence == "1 of 2 members has nothing: there is 1 partition"
    (uneven,) = judge(shares(members=3, partitions=6, idle_members=1, largest_share=5, subscriptions=["a"]), DEFAULTS)
    assert uneven.sentence.endswith("; 1 has nothing")


def test_members_that_came_a_minute_ago_are_not_idle_yet() -> None:
    assert names(shares(since_ms=MINUTE, members=6, partitions=4, idle_members=2, largest_share=1)) == set()


def test_members_of_a_share_group_share() -> None:
    assert names(shares("share", members=6, partitions=4, idle_members=2, largest_share=1)) == set()


def test_one_member_with_all_partitions_is_skewed() -> None:
    group_facts = shares(members=3, partitions=6, idle_members=2, largest_share=6, subscriptions=["a"])
    assert names(group_facts) == {"skewed_assignment"}


def test_members_with_different_subscriptions_are_not_skewed() -> None:
    group_facts = shares(members=3, partitions=6, idle_members=0, largest_share=4, subscriptions=["a", "b"])
    assert names(group_facts) == set()


# -- classic groups


def classic(version: int = 3, strategy: str = "range", protocol: str = "consumer", data: str | None = None) -> Facts:
    members = [
        {
            "memberId": f"m-{n}",
            "clientId": f"c-{n}",
            "rebalanceTimeout": 300_000,
            "sessionTimeout": 45_000,
            "subscription": {"version": version, "topics": ["t"], "userData": None},
            "assignment": {"assignedPartitions": [{"topic": "t", "partitions": [n]}], "userData": data},
        }
        for n in range(2)
    ]
    if protocol != "consumer":
        members = [each | {"subscription": {"hex": "00"}, "assignment": {"hex": "00"}} for each in members]
    stored = {"protocolType": protocol, "protocol": strategy, "generation": 1, "members": members}
    return facts(
        kind="classic",
        state="Stable",
        protocol=protocol,
        strategy=strategy,
        members=2,
        partitions=2,
        largest_share=1,
        last_record=json.dumps(stored),
    )


def readiness(group_facts: Facts) -> list[tuple[str, str]]:
    return [(finding.finding, finding.sentence) for finding in judge(group_facts, DEFAULTS)]


def test_a_classic_group_of_new_clients_is_ready() -> None:
    assert readiness(classic()) == [
        ("ready_for_consumer", "its 2 members can go to the consumer protocol, one restart each")
    ]


def test_old_clients_are_in_the_way() -> None:
    assert readiness(classic(version=1)) == [
        (
            "not_ready_for_consumer",
            "not ready for the consumer protocol: their metadata has version 1, a conversion takes 3 or newer",
        )
    ]


def test_an_assignor_with_bytes_of_its_own_is_in_the_way() -> None:
    ((name, sentence),) = readiness(classic(strategy="mine", data="00"))
    assert name == "not_ready_for_consumer"
    assert "mine is no assignor that a broker has" in sentence


def test_connect_and_streams_have_other_ways() -> None:
    assert "Connect's workers" in readiness(classic(protocol="connect", strategy="sessioned"))[0][1]
    assert "Kafka Streams application" in readiness(classic(strategy="stream", data="00"))[0][1]


def test_an_eager_group_that_rebalances_all_day_gets_a_forecast_of_its_gain() -> None:
    group_facts = classic()
    busy = Facts(**{**group_facts.__dict__, "hours": [hour(NOW - n * HOUR, rebalances=2) for n in range(48, 0, -1)]})
    found = {finding.finding: finding for finding in judge(busy, DEFAULTS)}
    assert set(found) == {"eager_group", "ready_for_consumer"}
    assert "by forecast" in found["eager_group"].sentence
    assert found["eager_group"].value is not None
    assert found["eager_group"].value > 0


def test_an_empty_rack_and_a_short_session_do_not_stand_against_the_forecast() -> None:
    stored = json.loads(classic().last_record or "")
    for member in stored["members"]:
        member["subscription"]["rackId"], member["sessionTimeout"] = "", 4_000  # as librdkafka writes it
    assert estimate(facts(strategy="range", last_record=json.dumps(stored))) is not None


def test_a_cooperative_group_may_rebalance_as_often() -> None:
    group_facts = classic(strategy="cooperative-sticky")
    busy = Facts(**{**group_facts.__dict__, "hours": [hour(NOW - n * HOUR, rebalances=2) for n in range(48, 0, -1)]})
    assert names(busy) == {"ready_for_consumer"}


# -- groups without members


def empty(away_ms: int, **more: Any) -> Facts:
    given = {"kind": "classic", "state": "Empty", "committed_partitions": 4, "emptied_ms": NOW - away_ms}
    return facts(**(given | {"last_commit_ms": NOW - away_ms - HOUR} | more))


def test_a_group_that_is_empty_for_days_is_abandoned() -> None:
    assert names(empty(3 * DAY)) == {"abandoned_group"}


def test_its_offsets_expire_after_a_week() -> None:
    assert names(empty(int(6.5 * DAY))) == {"abandoned_group", "offsets_expiring"}


def test_a_nightly_job_comes_back() -> None:
    assert names(empty(20 * HOUR)) == set()


def test_who_was_away_for_days_before_may_be_again() -> None:
    before = [event(NOW - 10 * DAY, "emptied"), event(NOW - 7 * DAY, "joined"), event(NOW - 4 * DAY, "emptied")]
    assert names(empty(4 * DAY, events=before)) == set()


def test_offsets_with_an_expiry_time_expire_then() -> None:
    group_facts = facts(state="Simple", committed_partitions=1, next_expiry_ms=NOW + HOUR, last_commit_ms=NOW)
    (found,) = judge(group_facts, DEFAULTS)
    assert found.finding == "offsets_expiring"
    assert found.sentence.startswith("the offsets of 1 partition expire in 60 minutes")


def test_offsets_of_members_do_not_expire_even_with_an_expiry_time() -> None:
    group_facts = facts(
        state="Stable", members=1, committed_partitions=1, next_expiry_ms=NOW + HOUR, last_commit_ms=NOW
    )
    assert names(group_facts) == set()


def test_a_simple_group_that_commits_no_more_is_abandoned() -> None:
    hours = [hour(NOW - 10 * DAY + n * HOUR, commits=1) for n in range(24)]
    simple = {"kind": "classic", "state": "Simple", "committed_partitions": 2, "last_commit_ms": NOW - 4 * DAY}
    assert names(facts(hours=hours, **simple)) == {"abandoned_group"}
    assert names(facts(hours=[hours[0], hours[-1]._replace(hour_ms=NOW - 4 * DAY)], **simple)) == set()


# -- logs


def loaded(*records: tuple[int, Any]) -> Facts:
    """Return the facts of a group whose records have these types and fields."""
    group = Group("s", "g")
    for offset, (record_type, value) in enumerate(records):
        fold(group, FoldedRecord(3, offset, NOW, record_type, False, "m", json.dumps(value)))
    return facts(partition=3, violations=Violations.from_json(json.loads(json.dumps(asdict(group.violations)))))


def test_a_log_that_a_release_does_not_load_is_found_with_its_record() -> None:
    (finding,) = judge(loaded((1, {}), (17, {})), DEFAULTS)
    assert finding.finding == "unloadable_log"
    assert finding.evidence[0][:2] == (3, 1)


def test_what_only_the_preview_minded_is_no_finding() -> None:
    assert names(loaded((1, {}), (3, {}))) == set()


def test_a_members_partitions_are_read_from_its_fields() -> None:
    group = Group("s", "g")
    for offset, (member, epoch) in enumerate((("m", 7), ("n", 6))):
        owned = {"memberEpoch": epoch, "assignedPartitions": [{"topicId": "t", "partitions": [0]}]}
        fold(group, FoldedRecord(3, offset, NOW, 8, False, member, json.dumps(owned)))
    assert "t-0 goes to n in epoch 6 and is owned in epoch 7" in group.violations.first[0].sentence


def test_durations_are_formatted_in_words() -> None:
    assert [duration_text(each * MINUTE) for each in (0.2, 1, 90, 150, 60 * 49)] == [
        "less than a minute", "1 minute", "90 minutes", "2 hours", "2 days"
    ]  # fmt: skip


def test_every_finding_and_every_threshold_stands_in_the_documentation() -> None:
    text = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"| `{name}` |" not in text] == []
    defaults = {each.name: getattr(DEFAULTS, each.name) for each in fields(DEFAULTS)}
    assert [name for name, value in defaults.items() if f"`{name}` | {value} |" not in text] == []
