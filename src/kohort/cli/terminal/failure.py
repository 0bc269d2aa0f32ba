"""Why a command failed, as one sentence and an exit status.

2 is for what the user typed (an ill-typed option, a name that does not exist), 1 for what the
cluster answered or did not answer. A traceback never reaches the user.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from difflib import get_close_matches
from typing import Any

from kohort.cli.terminal import interruption
from kohort.model.errors import ErrorCode, KafkaError

USAGE = 2
FAILED = 1
INTERRUPTED = 130

TYPED_WRONG = {
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
"""Answers of a broker that only another command line can change."""


class CommandFailed(Exception):
    """One sentence for the user, and the exit status that goes with it."""

    def __init__(self, sentence: str, status: int = FAILED) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status


def unknown(kind: str, name: str, known: Iterable[str], otherwise: str = "") -> CommandFailed:
    """Return the failure for a name that does not exist, with the nearest one that does."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    advice = f"did you mean {near[0]!r}?" if near else otherwise
    return CommandFailed(f"there is no {kind} {name!r}" + (f": {advice}" if advice else ""), USAGE)


def run_against(bootstrap: str, work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a command's coroutine against a cluster and return its exit status.

    Raises CommandFailed, its sentence says why the cluster refused or did not answer; OutputClosed; Interrupted.
    """
    try:
        return interruption.run(work())
    except KafkaError as error:
        raise CommandFailed(sentence_of(error, bootstrap), USAGE if error.code in TYPED_WRONG else FAILED) from error
    except (OSError, TimeoutError) as error:
        raise CommandFailed(unreachable(bootstrap, error)) from error


def sentence_of(error: KafkaError, bootstrap: str) -> str:
    """Return what went wrong and what it means for the user."""
    if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
        return unreachable(bootstrap, error)
    if error.text == error.code.text:
        return f"{bootstrap} answered {error.code.name}: {error.text}"
    return error.text  # the client says what was wanted, and why it was not done


def unreachable(bootstrap: str, error: BaseException) -> str:
    """Return the sentence for a cluster that does not answer."""
    return (
        f"{silent(bootstrap, error)}: start one with `kohort broker --data DIR`, "
        "or name another with --bootstrap-server or KOHORT_BOOTSTRAP"
    )


def silent(bootstrap: str, error: BaseException) -> str:
    """Return where no broker answers, and why; the addresses that were tried, where `bootstrap` is empty."""
    attempts: list[tuple[str, str]] = list(getattr(error, "attempts", ()))
    bootstrap = bootstrap or ",".join(dict.fromkeys(address for address, _ in attempts)) or "the cluster"
    whys = [why.removeprefix(f"cannot connect to {address}: ") for address, why in attempts]
    reason = "; ".join(dict.fromkeys(whys)) or str(error) or type(error).__name__
    if "Connect call failed" in reason:
        reason = "nothing listens there"  # asyncio's words for a refused connection
    return f"no broker answers at {bootstrap} ({reason})"
