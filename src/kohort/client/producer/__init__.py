"""The producer: partitioner, accumulator of batches, and sender.

Batches leave in the order of their records; with idempotence each record is written once.
"""
