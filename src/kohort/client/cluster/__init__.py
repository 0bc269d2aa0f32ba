"""One Kafka cluster as all clients use it: connections, metadata, coordinators, retries.

Requests for offsets that need no membership.
"""
