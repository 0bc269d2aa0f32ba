"""The address and the credentials of a cluster come from a properties file with the names of Kafka's tools."""

import os
import tempfile
from pathlib import Path

from kohort import config_from
from kohort.sync import Admin
from kohort.testing import EmbeddedBroker

PROPERTIES = """
bootstrap.servers=ADDRESS
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.username=ann
sasl.password=${env:BROKER_PASSWORD}
"""

with (
    EmbeddedBroker(kohort_sasl_plain_users="ann:secret") as broker,
    tempfile.TemporaryDirectory() as directory,
):
    file = Path(directory, "client.properties")
    file.write_text(PROPERTIES.replace("ADDRESS", broker.bootstrap_servers))
    os.environ["BROKER_PASSWORD"] = "secret"
    with Admin(**config_from(file)) as admin:
        admin.create_topic("guests", partitions=3)
        print("topics:", [topic.name for topic in admin.list_topics() if not topic.is_internal])
