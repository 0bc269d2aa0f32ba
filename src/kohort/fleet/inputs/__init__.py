"""The inputs of a fleet's history: a live cluster, segment files, dumps, metrics, the log of a broker.

Names are loaded on first use: Spark plans with `input_splits` alone, in a process that should start soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.fleet.inputs.input_kinds import parse_inputs as parse_inputs
    from kohort.fleet.inputs.input_splits import Input as Input
    from kohort.fleet.inputs.input_splits import Since as Since
    from kohort.fleet.inputs.input_splits import WrongInput as WrongInput

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "kohort.fleet.inputs.input_kinds": "parse_inputs",
        "kohort.fleet.inputs.input_splits": "Input Since WrongInput",
    },
)
