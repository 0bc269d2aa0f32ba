"""What commands know of groups: events that a broker has stored, the state that a cluster reports, and --watch."""
