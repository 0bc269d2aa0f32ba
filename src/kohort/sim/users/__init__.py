"""Worlds for users' own programs: `@kohort.sim.world`, and the `World` that a test gets from it.

The programs run unmodified, each on a simulated host of its own.
"""
