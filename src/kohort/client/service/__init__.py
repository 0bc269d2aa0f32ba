"""Services: functions that are called with the records of topics, one consumer for each, in one process.

A `Service` declares them; `kohort run` runs them.
"""
