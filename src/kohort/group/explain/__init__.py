"""Why a group rebalanced, what that cost, and what it was waiting for. A fold of its events, with its text and JSON."""
