"""Worlds for users' own programs: `@kohort.sim.world` and what it hands to a test."""
