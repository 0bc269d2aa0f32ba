"""Programs in virtual time: an event loop on a simulated host, and unmodified clients on it.

The standard library has the world's time and random numbers there.
"""
