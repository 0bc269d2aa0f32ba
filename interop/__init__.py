"""Programs that others wrote, fetched by package name and run beside kohort: Apache Kafka, its tools, other clients.

Nothing here is part of the installed package. What cannot be had raises `Unavailable` with the reason, which the
tests and the benchmarks turn into a skip.
"""
