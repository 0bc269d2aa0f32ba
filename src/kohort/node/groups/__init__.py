"""The group coordinator of a broker node.

It runs the decisions of kohort.group, keeps their records in __consumer_offsets and writes the event log of groups.
"""
