"""The targets by name, each with examples of what its decoder accepts: from those a corpus begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.decoders import of_files, of_node, of_texts, of_wire


class Target(NamedTuple):
    """One decoder, or several of one kind. `longest` limits its inputs, in bytes."""

    run: Callable[[bytes], None]
    examples: Callable[[], Iterator[bytes]]
    longest: int = 2000


TARGETS = {
    "frames": Target(of_wire.frames, of_wire.some_frames, 400),
    "messages": Target(of_wire.messages, of_wire.some_messages, 1000),
    "record-batches": Target(of_wire.record_batches, of_wire.some_record_batches),
    "compressed-records": Target(of_wire.compressed_records, of_wire.some_compressed_records),
    "embedded-protocols": Target(of_wire.embedded_protocols, of_wire.some_embedded_protocols, 500),
    "instance-messages": Target(of_wire.instance_messages, of_wire.some_instance_messages, 500),
    "proxy-headers": Target(of_wire.proxy_headers, of_wire.some_proxy_headers, 300),
    "certificates": Target(of_wire.certificates, of_wire.some_certificates, 500),
    "log-files": Target(of_files.log_files, of_files.some_log_files, 8000),
    "offsets-records": Target(of_files.offsets_records, of_files.some_offsets_records),
    "transaction-records": Target(of_files.transaction_records, of_files.some_transaction_records, 500),
    "metadata-log": Target(of_files.metadata_log, of_files.some_metadata_logs, 1000),
    "json": Target(of_texts.json_documents, of_texts.some_json_documents, 4000),
    "settings": Target(of_texts.settings, of_texts.some_settings),
    "rights": Target(of_texts.rights, of_texts.some_rights, 200),
    "logins": Target(of_texts.logins, of_texts.some_logins, 1000),
    "node": Target(of_node.node, of_node.some_streams),
}
