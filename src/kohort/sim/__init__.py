"""One seeded world in virtual time: our nodes and members on a simulated network, with faults and checkers."""
