"""What a migration there and back cost: from events that a broker wrote down, saved as lines of JSON."""

from kohort.cli.main import main

main(["explain", "billing", "--events", "migration_events.jsonl", "--last", "20"])
