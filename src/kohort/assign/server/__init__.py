"""Assignors that a coordinator runs for consumer groups (KIP-848).

They take members and topics by id and return the target assignment.
"""

from kohort.assign.server.spec import ServerAssignor, ServerGroup, ServerMember, ServerTopic

__all__ = ["ServerAssignor", "ServerGroup", "ServerMember", "ServerTopic"]
