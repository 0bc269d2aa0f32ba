"""One membership in one group: requests to the coordinator, callbacks, the leader's assignment.

It drives the state machines of `kohort.member`.
"""
