"""Rows of a round as records of a topic, in one transaction that several tasks write.

The driver begins and ends the transaction; each task writes some partitions under its producer id and epoch.
"""
