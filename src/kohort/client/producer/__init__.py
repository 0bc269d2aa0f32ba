"""The producer: partitioner, accumulator of batches, and the sender that writes them to leaders in order."""
