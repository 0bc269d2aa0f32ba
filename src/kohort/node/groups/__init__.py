"""The group coordinator of a broker node.

It runs the decisions of kohort.group, writes their records to __consumer_offsets and writes the event log of groups.
"""
