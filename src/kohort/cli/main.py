"""The entry of the command line. Each verb is a module beside this one, imported only when it is typed.

A module has `register(verbs)`, which adds its parser and sets `run`, a function of the parsed arguments that
returns the exit status.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from kohort.cli.terminal.options import Parser, add_context

VERBS = (
    "doctor",
    "broker",
    "gateway",
    "topics",
    "produce",
    "consume",
    "dlq",
    "run",
    "groups",
    "acls",
    "users",
    "contexts",
    "explain",
    "console",
    "top",
    "exporter",
    "log",
    "migrate",
    "what-if",
    "keda-scaler",
    "fleet",
    "sim",
    "completion",
)
"""The verbs in the order of the help, each named as its module, but for hyphens. One without a module is left out."""

ROOMS = {
    "contexts": "terminal.contexts",
    "produce": "records.produce",
    "consume": "records.consume",
    "dlq": "records.dlq",
    "exporter": "services.exporter",
    "run": "services.run",
}
"""Where the module of a verb is, if not beside this one."""

EXAMPLES = """examples:
  kohort broker --data ./kohort-data
  kohort topics create flights --partitions 12
  kohort consume flights --from-beginning --max 5
  kohort groups list
  kohort explain readers
  kohort groups reset-offsets --help"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 1 when it failed, 2 when it was typed wrongly."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    typed = verb_in(arguments)
    if typed is not None and typed not in VERBS:
        from difflib import get_close_matches

        near = get_close_matches(typed, VERBS, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(VERBS)}"
        if typed == "demo":
            advice = "the demo is in the repository: run `make demo` in a clone; `kohort fleet demo` needs no clone"
        print(f"kohort: there is no verb {typed!r}: {advice}", file=sys.stderr)
        return 2
    parser = parser_for(arguments)
    parsed = parser.parse_args(arguments)
    if parsed.version:
        from kohort import __version__

        print(f"kohort {__version__}")
        return 0
    if not hasattr(parsed, "run"):
        parser.print_help()
        return 2
    return run_verb(parsed)


def run_verb(parsed: argparse.Namespace) -> int:
    """Run the verb of a parsed command line; whatever ends it is a sentence on stderr and an exit status."""
    from kohort.cli.terminal import interruption, output
    from kohort.cli.terminal.failure import FAILED, INTERRUPTED, TRACEBACK_VARIABLE, CommandFailed, OutputClosed

    try:
        with interruption.first_signal(interruption.raise_keyboard_interrupt):
            status: int = parsed.run(parsed)
            output.flush()
    except CommandFailed as failure:
        output.complain(failure.sentence)
        return failure.status
    except OutputClosed:
        return 0  # as `head` expects of the command that it ended
    except interruption.Interrupted as interrupted:
        output.remark(f"ended by {interrupted}")
        return interrupted.status
    except KeyboardInterrupt:
        output.remark("ended by a signal")
        return INTERRUPTED
    except Exception as error:
        from kohort.model.errors import KafkaError

        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        if isinstance(error, KafkaError):
            output.complain(error.text)
            return FAILED
        output.complain(
            f"a fault of kohort itself: {type(error).__name__}: {error} (set {TRACEBACK_VARIABLE}=1 to see where)"
        )
        return FAILED
    return status


def verb_in(arguments: Sequence[str]) -> str | None:
    """Return the verb of a command line: its first word that is no option of the command's own."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] == "--context" else 1
    return arguments[at] if at < len(arguments) else None


def parser_for(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of a command line; of the verb that it names only, where it names one."""
    parser = Parser(
        prog="kohort",
        description="Kafka's consumer groups in Python.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    add_context(parser)
    verbs = parser.add_subparsers(metavar="VERB")
    typed = verb_in(arguments)
    for verb in [typed] if typed in VERBS else VERBS:
        name = f"kohort.cli.{ROOMS.get(verb, verb.replace('-', '_'))}"
        if find_spec(name) is not None:
            import_module(name).register(verbs)
    return parser
