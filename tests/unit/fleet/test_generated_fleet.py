"""A generated fleet is what its truth says: real logs, the same for the same seed, with names of their own."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.fleets import generate
from tests.fleets.mistakes import mistakes
from tests.fleets.scenarios import grown
from tests.fleets.simulated_group import SimulatedGroup, topic_token
from tests.replay.cleaned_log import loaded

from kohort.fleet.ground_truth import KnownFaults, Truth, read_truth
from kohort.fleet.load_check import KAFKA_17306, check_partition, segments_of
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import ConsumerGroupStored, GroupStored, OffsetCommitted
from kohort.log.group_replay import records_of
from kohort.log.memory_disk import MemoryDisk
from kohort.log.offsets_topic import Replay
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.model.ids import group_partition
from kohort.wire.consumer_protocol import subscribed_topics

SOME = ("eager", "consumer", "nightly", "share", "streams", "simple")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("fleet") / "log"
    progress_calls: list[tuple[int, int]] = []
    generate(
        directory,
        groups=40,
        seed=3,
        scenarios=SOME,
        partitions=4,
        commits_per_day=6,
        progress=lambda done, total: progress_calls.append((done, total)),
    )
    assert progress_calls == sorted(progress_calls)
    assert len(progress_calls) == 4 + 4  # of the stories four are played
    assert {total for _, total in progress_calls} == {4 + 40}
    return directory


def opened(home: Path, partition: int) -> PartitionLog:
    disk = MemoryDisk()
    name = f"__consumer_offsets-{partition}"
    disk.make_directory(name)
    for file in (home / name).iterdir():
        disk.open(f"{name}/{file.name}", create=True).append([file.read_bytes()])
    return PartitionLog.open(disk, name, LogConfig(), 0)


def digest(directory: Path) -> str:
    files = sorted(each for each in directory.rglob("*") if each.is_file())
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()


def test_the_same_seed_writes_the_same_bytes(home: Path, tmp_path: Path) -> None:
    generate(tmp_path / "again", groups=40, seed=3, scenarios=SOME, partitions=4, commits_per_day=6)
    assert digest(tmp_path / "again") == digest(home)


def test_another_seed_writes_others(home: Path, tmp_path: Path) -> None:
    generate(tmp_path / "other", groups=40, seed=4, scenarios=SOME, partitions=4, commits_per_day=6)
    assert digest(tmp_path / "other") != digest(home)


def test_every_partition_is_loaded_by_our_coordinator(home: Path) -> None:
    groups = {group for partition in range(4) for group in loaded(opened(home, partition), GroupSettings()).groups}
    truth = read_truth(home)
    unknown_to_us = {group for group, known in truth.groups.items() if known.scenario == "share"}
    assert set(truth.groups) - unknown_to_us == groups - unknown_to_us


def test_a_group_lies_in_the_partition_of_its_name(home: Path) -> None:
    for partition in range(4):
        replay = Replay()
        for record in records_of(opened(home, partition)):
            event = replay.event_of(record)
            if event is not None:
                assert group_partition(event.group_id, 4) == partition


def test_members_subscribe_to_the_topics_that_their_group_commits(home: Path) -> None:
    committed: dict[str, set[str]] = {}
    subscribed: dict[str, set[str]] = {}
    replay = Replay()
    for partition in range(4):
        for record in records_of(opened(home, partition)):
            event = replay.event_of(record)
            if isinstance(event, OffsetCommitted):
                committed.setdefault(event.group_id, set()).add(event.topic)
            elif isinstance(event, GroupStored):
                for member in event.members:
                    subscribed.setdefault(event.group_id, set()).update(subscribed_topics(member.subscription))
    assert subscribed
    assert all(committed[group] == topics for group, topics in subscribed.items())


def test_times_of_records_only_grow_and_lie_in_the_days_of_the_fleet(home: Path) -> None:
    truth = read_truth(home)
    for partition in range(4):
        times = [record.timestamp_ms for record in records_of(opened(home, partition))]
        assert times == sorted(times)
        assert truth.began_ms <= times[0]
        assert times[-1] < truth.ended_ms


def test_groups_that_are_well_load_in_every_kafka_that_is_no_preview(home: Path) -> None:
    for (partition, _), files in segments_of([home]).items():
        checked = check_partition(partition, files, lambda _: None)
        assert [each for each in checked.violations if each.demand is not KAFKA_17306] == []


def test_what_a_topic_that_grows_brings_about_comes_after_the_rest_before_it() -> None:
    scene = SimulatedGroup(1, {topic_token(0): 4})
    grown()(scene)
    _, later = scene.pieces()
    replay = Replay()
    replayed = [replay.event_of(record) for record in later.records]
    assert isinstance(replayed[0], ConsumerGroupStored)


def test_a_directory_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ValueError, match="is not empty"):
        generate(tmp_path)


def test_too_few_days_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 8"):
        generate(tmp_path / "log", days=3)


def test_a_score_counts_what_is_right_wrong_and_missed() -> None:
    some, none = frozenset({"storm"}), frozenset[str]()
    groups = {
        "ill": KnownFaults("storm", some, none, none),
        "missed": KnownFaults("storm", some, none, none),
        "near": KnownFaults("deploy", none, none, some),
        "either": KnownFaults("loop", none, some, none),
        "well": KnownFaults("eager", none, none, none),
    }
    truth = Truth(groups, 0, 0, 0)
    (score,) = truth.score([("ill", "storm"), ("near", "storm"), ("either", "storm")])
    assert (score.right, score.wrong, score.missed, score.near_misses, score.fooled, score.not_scored) == (
        1,
        1,
        1,
        1,
        1,
        1,
    )
    assert (score.precision, score.recall) == (0.5, 0.5)
    assert mistakes(truth, [("near", "storm")]) == [
        "storm found in 'deploy' (1 groups)",
        "storm missed in 'storm' (2 groups)",
    ]
