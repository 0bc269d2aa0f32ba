"""HTML reports of jobs in a group: who owned each partition and how far the group was behind, over time.

`kohort.drawing` draws them.
"""
