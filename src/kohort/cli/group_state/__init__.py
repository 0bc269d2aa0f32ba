"""What commands know of groups: the events that a broker has stored, and the state that the cluster reports."""
