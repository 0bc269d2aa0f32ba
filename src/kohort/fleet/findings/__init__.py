"""Rules that find faults in the history of groups, with the records that prove each finding.

One module per rule, or for rules of one subject; `facts` has their input and thresholds.
"""

from kohort.fleet.findings.facts import DEFAULTS, Facts, Finding, Thresholds
from kohort.fleet.findings.rules import NAMES, find_all, judge
from kohort.fleet.schema import Evidence

__all__ = ["DEFAULTS", "NAMES", "Evidence", "Facts", "Finding", "Thresholds", "find_all", "judge"]
