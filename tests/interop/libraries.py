"""Which client libraries this machine has."""

from __future__ import annotations

import pytest
from interop.group import ROOT

from interop import go_program, jars

MODULES = {"librdkafka": "confluent_kafka", "kafka_python": "kafka", "aiokafka": "aiokafka"}


def need(*libraries: str) -> None:
    """Skip the test unless all of these can be had."""
    for library in libraries:
        if library == "java":
            jars.compiled("GroupMember")
        elif library == "kgo":
            go_program.built(ROOT / "interop" / "kgo")
        elif library in MODULES:
            pytest.importorskip(MODULES[library])
