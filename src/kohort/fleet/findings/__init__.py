"""What is found in the history of a fleet: rules about groups and their logs, and the rows that prove each finding."""

from kohort.fleet.findings.facts import Evidence, Facts, Finding
from kohort.fleet.findings.find_all import find_all
from kohort.fleet.findings.rules import NAMES, judge
from kohort.fleet.findings.thresholds import DEFAULTS, Thresholds

__all__ = ["DEFAULTS", "NAMES", "Evidence", "Facts", "Finding", "Thresholds", "find_all", "judge"]
