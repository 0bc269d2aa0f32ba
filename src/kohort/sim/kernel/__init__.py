"""The kernel of every simulation: virtual time, hosts, network, disks and brokers on them, random numbers, and

the hooks of observers. It knows nothing of members, plans or checks.
"""
