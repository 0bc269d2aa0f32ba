"""A query as a member of its group: where it begins, what holds a rebalance up, and what is committed when."""
