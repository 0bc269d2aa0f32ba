"""Programs of a run: the jobs that are killed, and what other tools do to their tables meanwhile."""
