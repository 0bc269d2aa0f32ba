"""The bytes of one connection: frames in both directions, of which a few are read and at most one waits.

What is read, and what waits, another room decides.
"""
