"""Commands that write and read records: `produce`, `consume`, and `dlq` for those that failed."""
