"""Contents of a record's bytes: schemas of a registry, and values decoded to Arrow by the reader's schema.

Nothing here knows a cluster or a group; executors import it, and need no session.
"""
