"""Topics and their partitions on this broker.

`topics` has what exists, `topic` one topic with the open logs of its partitions, `log_cleaner` the cleaning of
compacted logs in the background.
"""
