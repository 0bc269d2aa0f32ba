"""Programs that write numbered records with one client library each, and print what was acknowledged to them.

Their lines are read by `interop.torture.history`. A record's value is WRITER:PARTITION:NUMBER; the numbers of one
partition count up from 0. A writer that its library has failed goes on with a new producer.
"""
