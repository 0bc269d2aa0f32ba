"""What a fleet of groups does, read from what it leaves in `__consumer_offsets`."""
