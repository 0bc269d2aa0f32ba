"""Text of others, such as client ids, made safe to print: one line, no control characters, no reordered text."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return text in which every character that does not print is written as an escape, such as `\x1b` or `\n`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
