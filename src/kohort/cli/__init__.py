"""The command line, `kohort VERB …`: one module per verb, `main` their entry."""

from kohort.cli.main import main

__all__ = ["main"]
