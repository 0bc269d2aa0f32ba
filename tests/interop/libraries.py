"""Which client libraries this machine has."""

from __future__ import annotations

import pytest
from interop.group import IN_GO, NEWEST_JAVA
from interop.process import ROOT

from interop import go_program, jars, node_program

MODULES = {"librdkafka": "confluent_kafka", "kafka_python": "kafka", "aiokafka": "aiokafka"}


def need(*libraries: str) -> None:
    """Skip the test unless all of these can be had."""
    for library in libraries:
        if library == "java":
            jars.compiled("GroupMember")
        elif library == NEWEST_JAVA:
            jars.compiled("GroupMember", pom=jars.NEWEST)
        elif library in IN_GO:
            go_program.built(ROOT / "interop" / "go" / library)
        elif library == "kafkajs":
            node_program.command(ROOT / "interop" / library)
        elif library in MODULES:
            pytest.importorskip(MODULES[library])
