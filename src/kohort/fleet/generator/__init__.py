"""Generator of the log of a fleet whose faults are known.

It measures the precision and recall of findings.
"""

from kohort.fleet.generator.fleet_log import generate
from kohort.fleet.generator.ground_truth import Known, Score, Truth, read_truth

__all__ = ["Known", "Score", "Truth", "generate", "read_truth"]
