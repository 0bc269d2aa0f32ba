"""Options that several commands share, and the types of their values.

A type rejects a wrong value with a sentence; argparse prints it below the usage and exits with 2.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "KOHORT_BOOTSTRAP"
CONFIG_VARIABLE = "KOHORT_COMMAND_CONFIG"


class Parser(ArgumentParser):
    """A parser without abbreviated options. The parsers of its verbs are of this class.

    A misspelt option is an error with the usage of the verb itself, and with the option that is nearest.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self._given: list[str] = []

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as ArgumentParser does; what a parser does not know is its own error, not its parent's."""
        self._given = list(sys.argv[1:] if args is None else args)
        parsed, unread = super().parse_known_args(args, namespace)
        if unread:
            self.error(f"unrecognized arguments: {' '.join(unread)}")
        return parsed, unread

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, with the options that unknown ones may stand for, and exit with 2."""
        if verb := re.match(r"argument VERB: invalid choice: '(.*)' \(choose from (.*)\)", message):
            near = get_close_matches(verb[1], re.findall(r"[\w-]+", verb[2]), n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"there are {verb[2]}"
            message = f"there is no verb {verb[1]!r}: {advice}"
        if message.startswith(("unrecognized", "the following arguments are required", "one of the arguments")):
            known = self._option_string_actions
            names = (each.partition("=")[0] for each in self._given if re.match(r"--|-\w$", each))
            for name in dict.fromkeys(name for name in names if name not in known):
                near = [each for each in known if each.startswith((name, name.lower()))]
                near = near or get_close_matches(name, known, n=1)
                message += f"; instead of {name}, did you mean {near[0]}?" if near else ""
        super().error(message)

    def format_help(self) -> str:
        """Return the help, which of a verb with verbs has the first example of each of them."""
        if self.epilog is None:
            verbs = [each for each in self._actions if isinstance(each, argparse._SubParsersAction)]
            inner = [parser for each in verbs for parser in each.choices.values()]
            self.epilog = "\n".join(["examples:", *(str(parser.epilog).splitlines()[1] for parser in inner)])
        return super().format_help()


SHORT_NAMES = {
    "--bootstrap-server": "-b",
    "--topic": "-t",
    "--group": "-g",
    "--partition": "-p",
    "--offset": "-o",
    "--format": "-f",
}
"""The short names of options, as kcat has them: of every verb that has the long one."""

Named = tuple[str, frozenset[int] | None]
"""What an option names: a topic, and some of its partitions or None for all."""


def add_option(
    parser: argparse._ActionsContainer, usage: str, text: str, kind: Callable[[str], object] = str, **more: Any
) -> None:
    """Add an option as its help shows it, such as "--max N" with the type of its values; without a value, a flag.

    It has its short name too, and may have several long ones with commas.
    """
    shown, _, metavar = usage.partition(" ")
    long_names = shown.split(",")
    names = [SHORT_NAMES[each] for each in long_names if each in SHORT_NAMES] + long_names
    if metavar or more:
        parser.add_argument(*names, metavar=metavar or None, type=kind, help=text, **more)
    else:
        parser.add_argument(*names, action="store_true", help=text)


def output_file(suffix: str) -> Callable[[str], Path]:
    """Return the type of a file that is to be written, whose name must end in `suffix`."""

    def file(text: str) -> Path:
        path = Path(text)
        if path.suffix.lower() != suffix:
            raise ArgumentTypeError(f"{text!r} is no {suffix[1:].upper()} file: its name must end in {suffix}")
        if not path.absolute().parent.is_dir():
            raise ArgumentTypeError(f"there is no directory {path.parent} for {path.name}")
        return path

    return file


def add_cluster(parser: ArgumentParser, *more_names: str) -> None:
    """Add --bootstrap-server, under `more_names` too, --command-config and --context; `resolve_cluster` reads them."""
    add_option(
        parser,
        f"{','.join(('--bootstrap-server', *more_names))} HOST:PORT",
        f"a broker, or several with commas (default: the file's, ${BOOTSTRAP_VARIABLE}, the context's,"
        f" {DEFAULT_BOOTSTRAP})",
        bootstrap,
    )
    add_option(
        parser,
        "--command-config FILE",
        f"properties with bootstrap.servers, security.protocol, sasl.*, ssl.* (default: ${CONFIG_VARIABLE})",
    )
    add_context(parser)


def add_context(parser: ArgumentParser) -> None:
    """Add --context, which may stand before the verb and behind it."""
    text = "a cluster of the file of contexts (default: $KOHORT_CONTEXT, the current one of `kohort contexts`)"
    add_option(parser, "--context NAME", text, default=argparse.SUPPRESS)


def add_client_id(parser: ArgumentParser) -> None:
    """Add --client-id."""
    add_option(parser, "--client-id NAME", "the command's name in the brokers' logs and quotas", default="kohort")


def resolve_cluster(args: argparse.Namespace) -> None:
    """Set what names the cluster: from options, else variables, else the context. Raises ValueError, OSError.

    `bootstrap_server`, `properties`, `security` (`tls` and `sasl` of clients), `cluster_options` (by which another
    command means the same cluster); `bootstrap_is_given`: an option, a file or the name of a context decides on it.
    """
    from kohort.cli.terminal.context_file import SERVERS, VARIABLE, properties_of, read_contexts

    by_option = getattr(args, "context", None)
    variables = {} if by_option else os.environ  # an option goes before them
    path = args.command_config or variables.get(CONFIG_VARIABLE)
    in_environment = variables.get(BOOTSTRAP_VARIABLE)
    name = by_option or os.environ.get(VARIABLE)
    in_file = properties_of(Path(path)) if path else {}
    args.bootstrap_is_given = bool(args.bootstrap_server or in_file.get(SERVERS) or name)
    contexts, in_context = None, dict[str, str]()
    # The current context is for commands that name no cluster by other means: its login is sent to no other one.
    if name or not (args.bootstrap_server or path or in_environment or getattr(args, "config", None)):
        contexts = read_contexts()
        if name := name or contexts.current:
            in_context = contexts.properties(name)
    args.properties = in_file if path else in_context
    try:
        args.security = _security(args.properties)
    except ValueError as error:
        if contexts is None or path or not name:
            raise ValueError(f"{path}: {error}") from None
        raise contexts.wrong(name, error) from None
    elsewhere = args.bootstrap_server or in_file.get(SERVERS) or in_environment
    args.bootstrap_server = elsewhere or in_context.get(SERVERS) or DEFAULT_BOOTSTRAP
    args.cluster_options = ["--context", name] if name and not path else []
    if elsewhere or path or not name:
        args.cluster_options += ["--bootstrap-server", args.bootstrap_server]
    args.cluster_options += ["--command-config", path] if path else []


def _security(properties: dict[str, str]) -> dict[str, Any]:
    """Return `tls` and `sasl` of clients. Raises ValueError."""
    if not properties:
        return {}
    from kohort.client.config_file import connection_arguments  # it imports what not every command needs

    return {name: value for name, value in connection_arguments(properties).items() if name in ("tls", "sasl")}


def _with_cluster(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    try:
        if hasattr(args, "command_config"):
            resolve_cluster(args)
        elif getattr(args, "context", None):
            raise ValueError("--context is for verbs that connect to one cluster")
    except (ValueError, OSError) as error:
        print(f"kohort: {_sentence(error)}", file=sys.stderr)
        return 2
    return run(args)


def _sentence(error: ValueError | OSError) -> str:
    return f"cannot read {error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


def add_json(parser: ArgumentParser, what: str = "one JSON document instead of a table") -> None:
    """Add --json."""
    add_option(parser, "--json", f"print {what}")


def verb_of_verbs(
    verbs: argparse._SubParsersAction[ArgumentParser], name: str, summary: str
) -> argparse._SubParsersAction[ArgumentParser]:
    """Add one verb that has verbs of its own, and return what they are added to."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = verbs.add_parser(name, help=summary, description=_described(summary), formatter_class=formatter)
    return parser.add_subparsers(metavar="VERB", required=True)


def _described(summary: str) -> str:
    return summary[0].upper() + summary[1:] + "."


def verb(
    verbs: argparse._SubParsersAction[ArgumentParser],
    name: str,
    summary: str,
    *,
    run: Callable[[argparse.Namespace], int],
    examples: str,
) -> ArgumentParser:
    """Add one verb with its summary, its examples and the function that runs it."""
    parser = verbs.add_parser(
        name,
        help=summary,
        description=_described(summary),
        epilog="examples:\n" + "\n".join(f"  {line}" for line in examples.strip().splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=partial(_with_cluster, run))
    return parser


def bootstrap(text: str) -> str:
    """Check a list of HOST:PORT."""
    for each in text.split(","):
        _parsed("ADDRESS", "HOST:PORT", each)
    return text


def number(lowest: int, what: str, highest: int | None = None) -> Callable[[str], int]:
    """Return the type of whole numbers from `lowest` on, to `highest` where given."""
    return partial(_parsed, "INT", what, low=lowest, high=highest)


def _parsed(kind: str, what: str, text: str, *, low: int | None = None, high: int | None = None) -> Any:
    from kohort.model.setting import Setting, SettingKind, SettingsError  # not for `--help`

    option = Setting(SettingKind[kind], None, "", low, high)
    try:
        return option.parse(text)
    except SettingsError:
        raise ArgumentTypeError(f"{text!r} is not {what}: expected {option.what}") from None


def setting(text: str) -> tuple[str, str]:
    """Return the two halves of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as retention.ms=86400000")
    return name.strip(), value.strip()


def host_and_port(text: str) -> tuple[str, int]:
    """Return the two halves of HOST:PORT, IPv6 in brackets; port 0 is any free one."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9308")
    return host.removeprefix("[").removesuffix("]"), int(port)


def topic_or_partitions(text: str) -> Named:
    """Return the topic of `TOPIC` or `TOPIC:0,1`, and its partitions, or None for all of them."""
    topic, colon, listed = text.partition(":")
    if not topic:
        raise ArgumentTypeError(f"{text!r} names no topic: give TOPIC or TOPIC:PARTITION,PARTITION")
    if not colon:
        return topic, None
    try:
        partitions = frozenset(int(partition) for partition in listed.split(","))
    except ValueError:
        raise ArgumentTypeError(f"{listed!r} in {text!r} is no list of partitions such as 0,1") from None
    if min(partitions) < 0:
        raise ArgumentTypeError(f"{text!r} names a negative partition")
    return topic, partitions


def amount(what: str, *, least: float = 0, below: float, unit: str = "") -> Callable[[str], float]:
    """Return the type of numbers in a range, with or without their unit."""

    def checked(text: str) -> float:
        with suppress(ValueError):
            if least <= (value := float(text.removesuffix(unit))) < below:
                return value
        raise ArgumentTypeError(f"{text!r} is no {what}")

    return checked


def duration_ms(text: str) -> int:
    """Return the milliseconds of `500ms`, `10s` or `2m`."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)(ms|s|m)", text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no duration such as 500ms, 10s or 2m")
    return round(float(found[1]) * {"ms": 1, "s": 1_000, "m": 60_000}[found[2]])


def moment_ms(text: str) -> int:
    """Return the milliseconds since the epoch of an ISO 8601 date or time; without a zone it is UTC, as in Kafka."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no ISO 8601 time such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
