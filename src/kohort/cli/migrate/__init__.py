"""The commands `kohort migrate plan` and `kohort migrate watch`, which move a group to another protocol.

Both read a live group; neither changes it.
"""

from kohort.cli.migrate.migrate_plan import register

__all__ = ["register"]
