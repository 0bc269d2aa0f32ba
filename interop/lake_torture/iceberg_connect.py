"""Apache Iceberg's sink in a Kafka Connect cluster of two workers, with settings as its page documents them.

A worker is killed as a whole. A task that has failed is restarted, as an operator would do it. Columns of a row's place
come from Connect's own transformations.
"""

from __future__ import annotations

import json
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from interop.connect import SETTINGS
from interop.jars import command
from interop.lake_torture.services import Services
from interop.ports import free_port
from kohort.sync import Admin

POM = "iceberg-connect-pom.xml"
WORKERS = 2
READY = "Finished starting connectors and tasks"
COMMIT_INTERVAL_MS = 2000
"""The default is five minutes, in which a run would see a dozen commits."""


class IcebergConnect:
    """The workers' commands, and what keeps the connector running."""

    def __init__(self, services: Services, folder: Path, name: str, topic: str) -> None:
        self.restarted_tasks = 0
        self._name = name
        self._ports = [free_port() for _ in range(WORKERS)]
        self._folder = folder
        self._services = services
        self._is_made = False
        control = f"{name}-control"
        self._config = {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": "3",
            "topics": topic,
            "consumer.override.auto.offset.reset": "earliest",
            "consumer.override.isolation.level": "read_committed",
            "iceberg.tables": f"air.{name}",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.topic": control,
            "iceberg.control.commit.interval-ms": str(COMMIT_INTERVAL_MS),
            "iceberg.catalog.type": "jdbc",
            "iceberg.catalog.uri": f"jdbc:postgresql://127.0.0.1:{services.gates['postgres'].port}/postgres",
            "iceberg.catalog.jdbc.user": "kohort",
            "iceberg.catalog.warehouse": (folder / "warehouse").as_uri(),
            "iceberg.catalog.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            "transforms": "text,place",
            "transforms.text.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.text.field": "text",
            "transforms.place.type": "org.apache.kafka.connect.transforms.InsertField$Value",
            "transforms.place.partition.field": "partition",
            "transforms.place.offset.field": "offset",
        }
        with Admin(services.broker.bootstrap) as admin:
            admin.create_topic(control, partitions=1)

    def commands(self) -> list[list[str]]:
        """Return the commands of the workers."""
        found = []
        for number, port in enumerate(self._ports):
            settings = {
                **SETTINGS,
                "bootstrap.servers": self._services.bootstrap,
                "group.id": f"workers-of-{self._name}",
                "listeners": f"http://127.0.0.1:{port}",
            }
            for topic in ("config", "offset", "status"):
                settings[f"{topic}.storage.topic"] = f"{self._name}-{topic}"
                settings[f"{topic}.storage.replication.factor"] = "1"
            file = self._folder / f"{self._name}-worker-{number}.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            line = command("org.apache.kafka.connect.cli.ConnectDistributed", str(file), pom=POM)
            line.insert(1, "-Dlog.level=INFO")
            found.append(line)
        return found

    def tend(self) -> None:
        """Make the connector, and restart tasks that have failed."""
        for port in self._ports:
            with suppress(OSError, ValueError):
                if not self._is_made:
                    self._call(port, "PUT", f"connectors/{self._name}/config", self._config)
                    self._is_made = True
                status = self._call(port, "GET", f"connectors/{self._name}/status")
                for task in status["tasks"]:
                    if task["state"] == "FAILED":
                        self._call(port, "POST", f"connectors/{self._name}/tasks/{task['id']}/restart")
                        self.restarted_tasks += 1
                return

    def _call(self, port: int, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", method=method)
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text else {}
