"""A fleet of groups as it could be, with a truth to measure others by."""

from kohort.fleet.generator.fleet_log import generate
from kohort.fleet.generator.ground_truth import Known, Score, Truth, read_truth

__all__ = ["Known", "Score", "Truth", "generate", "read_truth"]
