"""The brokers that a test or a benchmark may be given, by name."""

from __future__ import annotations

from collections.abc import Mapping

from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker

Broker = KohortBroker | ApacheKafka
BROKERS: Mapping[str, type[KohortBroker] | type[ApacheKafka]] = {"kohort": KohortBroker, "apache": ApacheKafka}
NEWEST = "newest"
"""The name of the newest Apache Kafka, where a test is given that one."""
