"""The names of metrics that docs/metrics.md has of Kafka's Java client, compared with those of its clients."""

from __future__ import annotations

import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from scripts.metrics_table import ONLY_IN_JAVA

from interop import jars
from kohort.client.consumer.consumer_metrics import CONSUMER_METRICS
from kohort.client.producer.producer_metrics import PRODUCER_METRICS

PROGRAM = """
import java.util.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.*;

class Names {
    public static void main(String[] none) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", "127.0.0.1:1", "group.id", "g"));
        for (String protocol : List.of("classic", "consumer")) {
            settings.put("group.protocol", protocol);
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer()).metrics().keySet()
                .forEach(each -> System.out.println(each.group() + " " + each.name()));
        }
        settings.keySet().removeAll(Set.of("group.id", "group.protocol"));
        settings.put("transactional.id", "t");
        new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer()).metrics().keySet()
            .forEach(each -> System.out.println(each.group() + " " + each.name()));
        Runtime.getRuntime().halt(0);
    }
}
"""


@pytest.mark.usefixtures("java")
def test_each_name_of_java_is_here_or_is_in_the_list_of_those_that_are_not(tmp_path: Path) -> None:
    source = tmp_path / "Names.java"
    source.write_text(PROGRAM)
    command = [jars.java(), "-cp", jars.class_path(), str(source)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
    found: dict[str, set[str]] = {"consumer": set(), "producer": set()}
    for line in printed.splitlines():
        group, name = line.split()
        if group.endswith("-metrics"):
            found[group.partition("-")[0]].add(name)
    for client, metrics in (("consumer", CONSUMER_METRICS), ("producer", PRODUCER_METRICS)):
        ours = {metric.name for metric in metrics}
        patterns = {
            pattern.removeprefix(f"{client}:")
            for names in ONLY_IN_JAVA
            for pattern in names.split()
            if ":" not in pattern or pattern.startswith(client)
        }
        without = {name for name in found[client] - ours if not any(fnmatchcase(name, each) for each in patterns)}
        assert not without, f"docs/metrics.md does not say where these are: {sorted(without)}"
        shipped = {metric.name for metric in metrics if metric.origin == "Kafka"}
        assert shipped <= found[client], "named by Kafka, as the page says"
