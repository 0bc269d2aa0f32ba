"""A finding of `kohort doctor`: what was found of which object, how bad it is, and what to do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    """Something goes wrong in a case that the text names, such as a move to another protocol."""
    ERROR = "error"
    """Something is wrong now."""


class DoctorFinding(NamedTuple):
    """One finding. `check` names what was looked at, for programs; `about` is the object, such as `group billing`."""

    severity: Severity
    check: str
    about: str
    text: str
    fix: str = ""
