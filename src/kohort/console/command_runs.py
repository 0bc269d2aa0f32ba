"""Runs the commands that pages show: the same command line, as a process of its own, within limits."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

TIMEOUT_S = 90.0
OUTPUT_BYTES = 1 << 20
AT_ONCE = 2


class CommandOutcome(NamedTuple):
    """How a command ended: its exit status and what it has printed."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON document on its output, None where there is none."""
        try:
            return json.loads(self.out)
        except (ValueError, RecursionError):
            return None

    @property
    def sentence(self) -> str:
        """Why it failed: the last line of its errors, without the name of the program."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        return lines[-1].removeprefix("kohort: ") if lines else f"it ended with status {self.status}"


def command_words(verb: Sequence[str], names: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """Return the words of a command; names that begin with a hyphen stand behind `--`."""
    if any(name.startswith("-") for name in names):
        return [*verb, *options, "--", *names]
    return [*verb, *names, *options]


def with_cluster(words: Sequence[str], cluster_options: Sequence[str]) -> list[str]:
    """Return the words of a command with the options that name its cluster."""
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *cluster_options, *words[end:]]


def command_line(words: Sequence[str], cluster_options: Sequence[str]) -> str:
    """Return a command line of kohort for a cluster, as a shell reads it."""
    return " ".join(map(shell_word, ["kohort", *with_cluster(words, cluster_options)]))


def shell_word(word: str) -> str:
    """Return a word as bash and zsh read it, without control characters: they would act where it is pasted."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_spelled, word)) + "'"


def _spelled(character: str) -> str:
    if character.isprintable():
        return "\\" + character if character in "\\'" else character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class CommandRuns:
    """Runs kohort's commands against one cluster, two at a time. No shell is involved."""

    def __init__(self, cluster_options: Sequence[str]) -> None:
        self._cluster_options = cluster_options
        self._free = asyncio.Semaphore(AT_ONCE)

    def with_cluster(self, words: Sequence[str]) -> list[str]:
        """Return the words of a command with those that name the cluster."""
        return with_cluster(words, self._cluster_options)

    async def run(self, words: Sequence[str]) -> CommandOutcome:
        """Run a command to its end; one that takes too long is ended."""
        async with self._free:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "kohort",
                    *self.with_cluster(words),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env={**os.environ, "NO_COLOR": "1", "COLUMNS": "160"},
                )
            except (OSError, ValueError) as error:  # a name with a null character is no argument
                return CommandOutcome(2, "", str(error))
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    out, err = await asyncio.gather(_read(process.stdout), _read(process.stderr))
                    status = await process.wait()
            except TimeoutError:
                return CommandOutcome(1, "", f"the command was ended: it took more than {TIMEOUT_S:.0f} s")
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        return CommandOutcome(status, out, err)


async def _read(stream: asyncio.StreamReader | None) -> str:
    """Read a stream to its end; what is beyond the limit is dropped."""
    assert stream is not None, "the process has pipes"
    buffered = bytearray()
    while part := await stream.read(1 << 16):
        buffered += part[: OUTPUT_BYTES - len(buffered)]
    return buffered.decode(errors="replace")
