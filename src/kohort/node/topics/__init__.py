"""Topics and their partitions on this broker: what exists, the open logs, the background cleaning of compacted

logs.
"""
