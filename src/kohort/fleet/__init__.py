"""History of all groups of a cluster, computed from `__consumer_offsets`: tables, findings and a report.

`kohort fleet` is its command line.
"""

from typing import TYPE_CHECKING

from kohort.model.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.fleet.findings import Thresholds as Thresholds
    from kohort.fleet.findings import find_all as find_all
    from kohort.fleet.schema import GROUP_HOURS as GROUP_HOURS
    from kohort.fleet.tables import Tables as Tables

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "kohort.fleet.findings": "Thresholds find_all",
        "kohort.fleet.schema": "GROUP_HOURS",
        "kohort.fleet.tables": "Tables",
    },
)
