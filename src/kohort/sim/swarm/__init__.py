"""The plan of a seed, its world with faults and healing, and what many seeds amount to."""
