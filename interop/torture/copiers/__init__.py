"""Programs that copy a topic in transactions which also commit the offsets of what they copied: exactly once.

The value of a copy is PARTITION@OFFSET of its record, on the partition of the same number. A copier that its library
has failed begins anew at the committed offsets, as a new process would.
"""
