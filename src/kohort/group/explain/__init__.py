"""Why a group rebalanced, and what that cost."""
