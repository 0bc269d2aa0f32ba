"""The bytes of `__consumer_offsets` as Arrow: batches, records and values, and what of them cannot be read."""
