"""What is derived from traffic: the groups, where their members are, and what has to be looked up.

It changes nothing that passes.
"""
