"""A headless Chromium that a test asks things of, by its DevTools protocol over a pipe: no port, no further package."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from interop.unavailable import Unavailable

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
ANSWER_S = 60.0

PLACED = """
import os, sys
high = [os.dup(int(end)) for end in sys.argv[1:3]]
while min(high) < 5:
    high = [os.dup(end) for end in high]
os.dup2(high[0], 3)
os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Puts the pipe where Chromium looks for it: it reads from descriptor 3 and writes to 4."""


class Chromium:
    """A browser with one page open. What the page says on its console and asks of the network is kept."""

    def __init__(self, profile: Path) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            raise Unavailable("there is no browser: install Chromium (on Debian: chromium)")
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        ends = (theirs_in, theirs_out)
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PLACED, *map(str, ends), *command],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in ends:
            os.close(end)
        self.reads, self.writes = ours_in, ours_out
        self.pending = b""
        self.number = 0
        self.console: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.loads = 0
        self.session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.writes)  # it ends when its pipe is closed
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.reads)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask, and return the answer; what happens meanwhile is kept."""
        self.number += 1
        asked = {"id": self.number, "method": method, "params": params}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.writes, json.dumps(asked).encode() + b"\0")
        for message in self.messages():
            if message.get("id") == self.number:
                assert "error" not in message, message["error"]
                return dict(message["result"])
        raise AssertionError("the browser has ended")

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what the browser says, until it is silent for too long."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            while b"\0" in self.pending:
                text, _, self.pending = self.pending.partition(b"\0")
                message = json.loads(text)
                self.note(message)
                yield message
            left = deadline - time.monotonic()
            assert left > 0, "the browser answers within a minute"
            ready, _, _ = select.select([self.reads], [], [], left)
            if ready:
                received = os.read(self.reads, 1 << 20)
                if not received:
                    return
                self.pending += received

    def note(self, message: dict[str, Any]) -> None:
        """Keep what happened by itself."""
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.console.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" | "Log.entryAdded":
                self.console.append(json.dumps(params))
            case "Page.javascriptDialogOpening":
                self.dialogs.append(params["message"])
            case "Page.loadEventFired":
                self.loads += 1

    def open(
        self, page: Path | str, *, width: int, height: int = 844, is_phone: bool = False, is_dark: bool = False
    ) -> None:
        """Show a file or an address at a width, and wait until it is loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        loads = self.loads
        self.call("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        if self.loads == loads:
            next(message for message in self.messages() if message.get("method") == "Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """Return what an expression is in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Hold a browser with a profile of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, Chromium(Path(profile)) as running:
        yield running
