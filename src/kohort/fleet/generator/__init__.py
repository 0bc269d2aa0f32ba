"""A fleet of groups as it could be, with a truth to measure others by."""

from kohort.fleet.generator.fleet import generate
from kohort.fleet.generator.truth import Known, Score, Truth, read_truth

__all__ = ["Known", "Score", "Truth", "generate", "read_truth"]
