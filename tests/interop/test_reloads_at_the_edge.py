"""`kohort gateway` reads its file again in front of Apache Kafka: members of Java and librdkafka notice nothing."""

from __future__ import annotations

import os
import signal

import pytest
from interop.group import Group
from interop.kohort_gateway import KohortGateway
from interop.ownership import check_single_owner
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(60)]

LIBRARIES = ("java", "librdkafka")
PARTITIONS = 6
PARKED = "[[policies]]\ntreatment = 'park'\n"
SOON_AGAIN = "fallback_ms = 1000\n"
"""A busy machine may answer a parked heartbeat later than its client waits, and the group is observed for a while."""

FILES = (
    f"{SOON_AGAIN}{PARKED}",
    f"{SOON_AGAIN}[[policies]]\ntreatment = 'off'\n",
    f"fallback_ms = 1500\n{PARKED}static_members = 'client_id'\n",
    f"{SOON_AGAIN}[[assignors]]\ngroups = '*'\nassignor = 'uniform'\n{PARKED}",
    SOON_AGAIN,
    f"{SOON_AGAIN}{PARKED}",
)


@pytest.mark.parametrize("broker", ["apache"])
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
@pytest.mark.capability("kohort gateway", "reload under members of Java and librdkafka, {protocol}")
def test_a_reload_rebalances_no_group(protocol: str, stage: Stage) -> None:
    need(*LIBRARIES)
    create_topic(stage.bootstrap, stage.name, PARTITIONS)
    file = stage.folder / f"{protocol}.toml"
    file.write_text(SOON_AGAIN)
    settings = {"protocol": "consumer"} if protocol == "consumer" else {"assignor": protocol, "heartbeat_ms": "1000"}
    with (
        KohortGateway(stage.bootstrap, "--config", str(file)) as gateway,
        Group(gateway.bootstrap, stage.name, stage.name, PARTITIONS, stage.folder) as group,
    ):
        members = [group.start(library, **settings) for library in (*LIBRARIES, *LIBRARIES)]
        group.settle(120)
        group.calm(4)
        changes, rebalances = [len(each.changes) for each in members], gateway.metric("rebalances_total")
        for number, text in enumerate(FILES, 1):
            file.write_text(text)
            group.await_(
                lambda number=number: gateway.metric("settings_reloads_total") >= number,  # type: ignore[misc]
                "the file is read",
                30,
            )
            if text.endswith(PARKED):
                parked = gateway.metric("heartbeats_held_total")
                group.await_(
                    lambda parked=parked: gateway.metric("heartbeats_held_total") >= parked + 4,  # type: ignore[misc]
                    "heartbeats are parked",
                    60,
                )
            group.calm(3)
        file.write_text("[[policies]]\ntreatment = 'prak'\n")
        group.await_(lambda: "line 2: policies: row 1: treatment='prak'" in gateway.child.text(), "it is refused", 30)
        os.kill(gateway.child.pid, signal.SIGHUP)
        group.await_(lambda: gateway.metric("settings_reloads_total") == len(FILES) + 2, "so it is by order", 30)
        group.calm(3)
        assert [len(each.changes) for each in members] == changes, "no member has moved"
        assert gateway.metric("rebalances_total") == rebalances
        check_single_owner(group.members)
