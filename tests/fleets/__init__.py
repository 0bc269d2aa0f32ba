"""Generator of the log of a fleet whose faults are known.

It measures the precision and recall of findings.
"""

from tests.fleets.fleet_log import generate

__all__ = ["generate"]
