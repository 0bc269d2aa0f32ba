"""Rows of topics: their columns, the offset ranges of a round, and how a task reads them.

Executors import these modules; they know no group.
"""
