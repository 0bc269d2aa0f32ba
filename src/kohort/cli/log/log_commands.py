"""The options of `kohort log`, which its verbs add."""

from __future__ import annotations

import argparse

from kohort.cli.log import group_logs, log_files


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `log` and its verbs to the command line."""
    parser = verbs.add_parser("log", help="verify, repair, check or export log files")
    inner = parser.add_subparsers(metavar="VERB", required=True)
    log_files.register(inner)
    group_logs.register(inner)
