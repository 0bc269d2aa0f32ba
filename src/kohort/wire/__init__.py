"""Kafka's bytes and the values they stand for: messages, frames, the embedded protocol, record batches."""
