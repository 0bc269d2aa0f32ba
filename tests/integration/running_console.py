"""A `kohort console` as a process, and a browser of a few lines: pages, forms, and the stream of updates."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

END_S = 30


class Page(NamedTuple):
    """A response."""

    status: int
    headers: Mapping[str, str]
    text: str


class RunningConsole:
    """A console against a cluster. The first page is opened with the token, all others with its cookie."""

    def __init__(self, bootstrap: str, *options: str) -> None:
        command = [sys.executable, "-m", "kohort", "console", "--port", "0", "--json", *options]
        self.process = subprocess.Popen(
            command, env={**os.environ, "KOHORT_BOOTSTRAP": bootstrap}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read().decode())
        self.address = json.loads(line)["address"]
        parts = urlsplit(self.address)
        self.host, self.port, self.path = "127.0.0.1", parts.port or 0, f"{parts.path}?{parts.query}"
        self.prefix = parts.path.rstrip("/")
        self.cookie = ""

    def __enter__(self) -> RunningConsole:
        self.log_in()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def log_in(self) -> Page:
        """Open the address that was printed."""
        page = self.get(self.path, cookie="")
        self.cookie = page.headers.get("set-cookie", "").partition(";")[0]
        return page

    def stop(self) -> int:
        """End it as an operator does, and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=END_S)
        finally:
            self.process.kill()
        return self.process.returncode

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        cookie: str | None = None,
        body: str = "",
    ) -> Page:
        """Send a request, with the cookie unless another one is given."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=END_S)
        sent = {"Cookie": self.cookie if cookie is None else cookie, **(headers or {})}
        try:
            connection.request(method, path, body or None, sent)
            response = connection.getresponse()
            text = response.read().decode()
            return Page(response.status, {name.lower(): value for name, value in response.getheaders()}, text)
        finally:
            connection.close()

    def get(self, path: str, *, headers: Mapping[str, str] | None = None, cookie: str | None = None) -> Page:
        """Open a page."""
        return self.request("GET", path, headers=headers, cookie=cookie)

    def post(self, path: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Page:
        """Send a form of the console's own pages."""
        own = {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/x-www-form-urlencoded"}
        return self.request("POST", path, headers={**own, **(headers or {})}, body=urlencode(fields))

    @contextmanager
    def updates(self, path: str) -> Iterator[Iterator[dict[str, str]]]:
        """Yield the parts of an open page as they change."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=END_S)
        try:
            connection.request("GET", path, headers={"Cookie": self.cookie})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield (json.loads(line[5:]) for line in response if line.startswith(b"data:"))
        finally:
            connection.close()

    def until(self, path: str, part: str, *words: str) -> str:
        """Wait until a part of an open page has words, and return it."""
        return self.until_match(path, part, *map(re.escape, words))

    def until_match(self, path: str, part: str, *patterns: str) -> str:
        """Wait until patterns are in a part of an open page, and return it."""
        deadline_s = time.monotonic() + END_S
        text = ""
        with self.updates(path) as changes:
            for changed in changes:
                text = changed.get(part, text)
                if all(re.search(each, text) for each in patterns):
                    return text
                assert time.monotonic() < deadline_s, f"{patterns} in {text}"
        raise AssertionError(f"the stream has ended; {patterns} in {text}")
