"""A Kafka broker without I/O: bytes in, bytes out, timers asked for.

`node` puts the parts together, `connections` serves requests, `apis` has one module for each API. It imports no clock,
socket or file: the disk, the time and random bytes are arguments.
"""
