"""The coordinator without I/O: `decide` reads a group and a command, `apply` folds an event into a group.

Rooms for classic groups, consumer groups, conversions between them, and the explanation of what happened.
"""
