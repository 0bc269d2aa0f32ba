"""Moving a live group from one protocol to the other. Conversions in the coordinator, and plans for an operator."""
