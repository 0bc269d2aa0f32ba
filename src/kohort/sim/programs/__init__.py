"""Programs in virtual time: an event loop on a simulated host, and unmodified clients on it."""
