"""The swarm: a seed's plan, its world with faults and healing, and the summary of many seeds. No user's program."""
