"""What waits, and until when: parked heartbeats, and withheld answers to SyncGroup.

The rules of time are those of `kohort.parking`.
"""
