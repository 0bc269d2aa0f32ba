"""The gateway without I/O: connections as bytes in and bytes out, the groups seen in them, and what is changed.

Time, timers and sinks are given to it; the simulator runs it as it is.
"""
