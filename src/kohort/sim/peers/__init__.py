"""Members without a client: the state machines behind real bytes, and what their users do."""
