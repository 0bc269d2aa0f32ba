"""What is known of each group of a cluster: members, rebalances with causes, ownership, lag. Pure folds, bounded.

They get the events of a broker or a gateway where there are any, and the differences between two looks elsewhere.
"""
