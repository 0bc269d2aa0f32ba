"""The inputs of a fleet's history: a live cluster, segment files, dumps, metrics, the log of a broker.

Spark plans with `input_splits` alone, in a process that should start soon: nothing is imported here.
"""
