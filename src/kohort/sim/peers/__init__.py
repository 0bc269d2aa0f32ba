"""Simulated clients: the member state machines behind real bytes, a producer and an administrator, without asyncio.

The swarm and `what-if` use them, and the generator of fleets in the tests.
"""
