"""Silver: what happened to each group, made of bronze by one pass over its records."""

from kohort.fleet.silver.frames import STATE, commit_hours, commits, folded, group_records, is_commit, untouched

__all__ = ["STATE", "commit_hours", "commits", "folded", "group_records", "is_commit", "untouched"]
