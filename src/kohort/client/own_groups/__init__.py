"""Groups of one's own, as Kafka's client-side assignment proposal has them: any protocol type, any metadata."""
