"""Simulated clients: the member state machines behind real bytes, a producer and an administrator, without asyncio.

The swarm and the generator of fleets use them.
"""
