"""The consumer: subscription, positions, fetching, delivery of records, commits.

Ranges of offsets without a group, for Spark's executors.
"""
