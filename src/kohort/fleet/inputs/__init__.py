"""What the history of a fleet is read from: a live cluster, segment files, dumps, metrics, the log of a broker."""

from kohort.fleet.inputs.naming import parse_inputs
from kohort.fleet.inputs.pieces import Input, Since, WrongInput

__all__ = ["Input", "Since", "WrongInput", "parse_inputs"]
