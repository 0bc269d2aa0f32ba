"""Streams groups (KIP-1071): threads of Kafka Streams, their topology and their tasks. The essay is in `machine`."""
