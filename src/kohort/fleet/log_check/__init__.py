"""`kohort log check`: would some Kafka stop at a record of this log."""
