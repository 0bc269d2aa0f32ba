"""The cost of a migration to the consumer protocol and back, from saved group events (lines of JSON)."""

from kohort import main

main(["explain", "billing", "--events", "migration_events.jsonl", "--last", "20"])
