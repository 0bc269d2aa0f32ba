"""The kernel of every simulation: virtual time, hosts, network, brokers on their disks, random numbers, observers.

It knows nothing of members, plans or checks.
"""
