"""The plan of a seed, the menu of its faults, and the simulated cluster on which they are carried out.

The swarm and the worlds of users' programs share it.
"""
