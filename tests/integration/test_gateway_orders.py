"""Orders of operators to groups behind a gateway: drained members, and rounds that begin when they are ordered."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.integration.commands import Commands
from tests.integration.running_gateway import RunningGateway

from kohort import CooperativeStickyAssignor, RangeAssignor, sync
from kohort.broker.embedded import EmbeddedBroker
from kohort.client.membership.protocol_driver import Assignor
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment

PARKING = PolicyTable((Policy(groups="*", treatment=Treatment.PARK),))
PARTITIONS = 4


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    given = {"kohort_group_heartbeat_park": False, "group_initial_rebalance_delay_ms": 0}
    with EmbeddedBroker(**given) as broker:
        with sync.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", PARTITIONS)
        yield broker


@pytest.fixture
def kohort(
    broker: EmbeddedBroker, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Commands:
    return Commands(broker.bootstrap_servers, capfdbinary, tmp_path, monkeypatch)


class Member:
    """A consumer in a thread, which polls until the block ends."""

    def __init__(self, bootstrap_servers: str, assignor: Assignor, instance_id: str | None, **more: str) -> None:
        self._stopped = threading.Event()
        self._settings = {
            "bootstrap_servers": bootstrap_servers,
            "group_id": "g",
            "assignors": [assignor],
            "group_instance_id": instance_id,
            "heartbeat_interval_ms": 200,
            **more,
        }
        self.consumer = sync.Consumer("t", **self._settings)
        self.consumer.start()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stopped.is_set():
            self.consumer.poll(timeout_ms=20)

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self.consumer.stop()


@contextmanager
def group(bootstrap_servers: str, assignor: type[Assignor], count: int = 2) -> Iterator[list[Member]]:
    with ExitStack() as stack:
        members = [
            stack.enter_context(Member(bootstrap_servers, assignor(), f"instance-{number}")) for number in range(count)
        ]
        yield members


def owned(kohort: Commands, by: str = "instance") -> dict[str, int]:
    """Return how many partitions each instance owns, as the coordinator describes it; none before its first member."""
    described = kohort("groups", "describe", "g", "--members", "--json")
    if not described.out and "there is no group 'g'" in described.err:
        return {}
    return {each[by]: sum(map(len, each["assigned"].values())) for each in described.json["members"]}


def settle(kohort: Commands, expected: dict[str, int], by: str = "instance") -> None:
    """Wait until the instances own so many partitions."""
    waits_until = time.monotonic() + 40
    while (found := owned(kohort, by)) != expected:
        assert time.monotonic() < waits_until, (found, expected)


@pytest.mark.parametrize("assignor", [RangeAssignor, CooperativeStickyAssignor])
def test_a_drained_member_keeps_its_place_and_gets_nothing(
    broker: EmbeddedBroker, kohort: Commands, assignor: type[Assignor]
) -> None:
    with (
        RunningGateway(broker.bootstrap_servers, policies=PARKING) as gateway,
        group(gateway.bootstrap_servers, assignor),
    ):
        settle(kohort, {"instance-0": 2, "instance-1": 2})
        drained = kohort("groups", "drain", "--yes", "g", "instance-0", "--reason", "deploy 118", "--json")
        assert drained.json["drained"] == "instance-0"
        settle(kohort, {"instance-0": 0, "instance-1": 4})
        described = kohort("groups", "describe", "g", "--members", "--json").json
        assert {each["instance"]: each["drained"] for each in described["members"]} == {
            "instance-0": True,
            "instance-1": False,
        }
        assert kohort("groups", "undrain", "g", "--all").status == 0
        settle(kohort, {"instance-0": 2, "instance-1": 2})


def test_what_is_drained_survives_a_restart_of_the_gateway(broker: EmbeddedBroker, kohort: Commands) -> None:
    with (
        RunningGateway(broker.bootstrap_servers, policies=PARKING) as gateway,
        group(gateway.bootstrap_servers, RangeAssignor),
    ):
        settle(kohort, {"instance-0": 2, "instance-1": 2})
        assert kohort("groups", "drain", "--yes", "g", "instance-1").status == 0
    with (
        RunningGateway(broker.bootstrap_servers, policies=PARKING) as gateway,
        group(gateway.bootstrap_servers, RangeAssignor),
    ):
        settle(kohort, {"instance-0": 4, "instance-1": 0})


def test_a_group_rebalances_when_it_is_ordered(broker: EmbeddedBroker, kohort: Commands) -> None:
    with (
        RunningGateway(broker.bootstrap_servers, policies=PARKING) as gateway,
        group(gateway.bootstrap_servers, RangeAssignor),
    ):
        settle(kohort, {"instance-0": 2, "instance-1": 2})
        assert kohort("groups", "rebalance", "g", "--reason", "stuck", "--json").json == {
            "group": "g",
            "rebalancing": True,
        }


def test_orders_that_cannot_be_carried_out_say_what_is_missing(broker: EmbeddedBroker, kohort: Commands) -> None:
    with group(broker.bootstrap_servers, RangeAssignor):
        settle(kohort, {"instance-0": 2, "instance-1": 2})
        unseen = kohort("groups", "rebalance", "g", "--timeout", "300ms")
        assert unseen.status == 1
        assert "no gateway has carried out the order" in unseen.err
        wrong = kohort("groups", "drain", "--yes", "g", "instanse-0")
        assert (wrong.status, "did you mean 'instance-0'" in wrong.err) == (2, True)
        assert "nothing is drained" in kohort("groups", "undrain", "g", "x").err
        everyone = kohort("groups", "drain", "--yes", "g", "127.0.0.1")
        assert everyone.status == 1
        assert "127.0.0.1: 2 members of 2 with 4 of 4 partitions of g" in everyone.err
        assert "every member of group g is drained" in everyone.err
        forced = kohort("groups", "drain", "--yes", "g", "127.0.0.1", "--force", "--timeout", "300ms")
        assert "no gateway has carried out the order" in forced.err
    with sync.Consumer("t", bootstrap_servers=broker.bootstrap_servers, group_id="k", group_protocol="consumer") as one:
        while not one.assignment():
            one.poll(timeout_ms=20)
        assert "consumer protocol" in kohort("groups", "drain", "--yes", "k", "x").err


@pytest.mark.parametrize("assignor", [RangeAssignor, CooperativeStickyAssignor])
def test_a_hook_drains_the_process_that_runs_and_not_its_successor(
    broker: EmbeddedBroker, kohort: Commands, assignor: type[Assignor], tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    with RunningGateway(broker.bootstrap_servers, policies=PARKING, events=str(events)) as gateway:

        def pod(number: int) -> Member:
            return Member(gateway.bootstrap_servers, assignor(), None, client_id=f"pod-{number}-reader")

        with pod(1):
            with pod(0):
                settle(kohort, {"pod-0-reader": 2, "pod-1-reader": 2}, "client")
                drained = kohort("groups", "drain", "--yes", "g", "pod-0", "--wait", "--reason", "deploy 118", "--json")
                assert (drained.status, drained.json["outcome"], drained.json["partitions"]) == (0, "drained", 2)
                assert "pod-0: 1 member of 2 with 2 of 4 partitions of g" in drained.err
                assert owned(kohort, "client") == {"pod-0-reader": 0, "pod-1-reader": 4}
            settle(kohort, {"pod-1-reader": 4}, "client")
            with pod(0):
                settle(kohort, {"pod-0-reader": 2, "pod-1-reader": 2}, "client")
            assert "nothing is drained" in kohort("groups", "undrain", "g", "--all").err
    ordered = "ordered by User:ANONYMOUS: drain pod-0-reader-"
    assert ordered in events.read_text()
    assert ordered in kohort("explain", "g", "--json").out, "our broker has the order's reason in its own events"


def test_a_static_member_that_was_drained_by_a_hook_gets_partitions_when_it_is_back(
    broker: EmbeddedBroker, kohort: Commands
) -> None:
    with (
        RunningGateway(broker.bootstrap_servers, policies=PARKING) as gateway,
        Member(gateway.bootstrap_servers, RangeAssignor(), "instance-1"),
    ):
        with Member(gateway.bootstrap_servers, RangeAssignor(), "instance-0"):
            settle(kohort, {"instance-0": 2, "instance-1": 2})
            assert kohort("groups", "drain", "--yes", "g", "instance-0", "--wait").status == 0
        assert owned(kohort)["instance-0"] == 0
        with Member(gateway.bootstrap_servers, RangeAssignor(), "instance-0"):
            settle(kohort, {"instance-0": 2, "instance-1": 2})


def test_a_hook_does_not_fail_where_no_member_can_be_drained_or_take_over(
    broker: EmbeddedBroker, kohort: Commands
) -> None:
    assert kohort("groups", "drain", "--yes", "g", "pod-0").status == 2
    absent = kohort("groups", "drain", "--yes", "g", "pod-0", "--wait", "--json")
    assert (absent.status, absent.json["outcome"]) == (0, "not_found")
    with group(broker.bootstrap_servers, RangeAssignor, 1):
        settle(kohort, {"instance-0": 4})
        other = kohort("groups", "drain", "--yes", "g", "pod-0", "--wait")
        assert (other.status, "there is no member or host 'pod-0'" in other.out) == (0, True)
        last = kohort("groups", "drain", "--yes", "g", "instance-0", "--wait")
        assert (last.status, "no other member of group g could get its partitions" in last.out) == (0, True)


def test_a_hook_without_a_gateway_fails_and_withdraws_its_order(broker: EmbeddedBroker, kohort: Commands) -> None:
    with group(broker.bootstrap_servers, RangeAssignor):
        settle(kohort, {"instance-0": 2, "instance-1": 2})
        unseen = kohort("groups", "drain", "--yes", "g", "instance-0", "--wait", "--timeout", "300ms")
        assert (unseen.status, "is `kohort gateway` in front of the cluster" in unseen.err) == (1, True)
        assert "nothing is drained in group g" in kohort("groups", "undrain", "g", "--all").err
