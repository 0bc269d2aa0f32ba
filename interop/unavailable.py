"""The error for a part that this machine does not have: a test that needs it is skipped, the text is the reason."""

from __future__ import annotations


class Unavailable(RuntimeError):
    """Something that is not installed here and cannot be fetched; the text says what, and how to install it."""
