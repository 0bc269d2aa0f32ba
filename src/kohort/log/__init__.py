"""Partition logs in Kafka's file format, over a disk that is passed in: segments, indexes, recovery, compaction.

`offsets_topic` encodes and replays the records of `__consumer_offsets`, the log of the groups.
"""
