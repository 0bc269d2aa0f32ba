"""kohort: Kafka's consumer-group system in Python."""

__version__ = "0.1.0"
