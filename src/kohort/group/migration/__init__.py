"""Moving a live group from one protocol to another."""
