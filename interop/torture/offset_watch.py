"""A client that asks for the committed offsets of all groups again and again, and keeps when it saw which."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from interop.torture.history import GroupHistory, OffsetFetch
from interop.wire import Wire
from kohort.wire import messages

PAUSE_S = 0.5


class OffsetWatch:
    """A thread that fills `fetches` of the histories of groups, and writes each to a file; a context manager."""

    def __init__(self, bootstrap: str, groups: list[GroupHistory], output: Path) -> None:
        self._bootstrap = bootstrap
        self._groups = groups
        self._output = output
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="offsets", daemon=True)

    def __enter__(self) -> OffsetWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with self._output.open("w", buffering=1) as lines:
            while not self._is_over.is_set():
                with suppress(OSError, EOFError), Wire(self._bootstrap, "offset-watch", timeout_s=30) as wire:
                    while not self._is_over.wait(PAUSE_S):
                        for group in self._groups:
                            self._ask(wire, group, lines.write)
                self._is_over.wait(PAUSE_S)

    def _ask(self, wire: Wire, group: GroupHistory, write: Callable[[str], object]) -> None:
        sent_s = time.monotonic()
        answer = wire.call(messages.OffsetFetchRequest(group_id=group.name, topics=None, require_stable=True), 7)
        answered_s = time.monotonic()
        if answer.error_code:
            return
        for topic in answer.topics:
            for each in topic.partitions:
                if topic.name == group.topic and not each.error_code:
                    fetch = OffsetFetch(each.partition_index, each.committed_offset, sent_s, answered_s)
                    group.fetches.append(fetch)
                    write(json.dumps({"group": group.name, **fetch._asdict()}) + "\n")
