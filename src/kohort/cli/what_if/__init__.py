"""The command `kohort what-if`: what it reads, and how it prints what was forecast."""

from kohort.cli.what_if.what_if_command import register

__all__ = ["register"]
