"""History of all groups of a cluster, computed from `__consumer_offsets`: tables, findings and a report.

`kohort fleet` is its command line.
"""
