"""What a seed decides before a world runs (its plan and the menu of faults), and what carries it out on a

simulated cluster. The swarm and worlds of users' programs share it.
"""
