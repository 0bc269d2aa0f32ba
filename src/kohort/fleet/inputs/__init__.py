"""The inputs of a fleet's history: a live cluster, segment files, dumps, metrics, the log of a broker.

Names are loaded on first use: Spark plans with `input_splits` alone, in a process that should start soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.fleet.inputs.input_kinds import parse_inputs
    from kohort.fleet.inputs.input_splits import Input, Since, WrongInput

__all__ = ["Input", "Since", "WrongInput", "parse_inputs"]

_NAMES_IN = {
    "kohort.fleet.inputs.input_kinds": "parse_inputs",
    "kohort.fleet.inputs.input_splits": "Input Since WrongInput",
}

__getattr__ = lazy_exports(__name__, _NAMES_IN)
