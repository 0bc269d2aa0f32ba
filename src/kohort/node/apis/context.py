"""What the handlers of the APIs work with: the node's services, and the state that only requests have."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from kohort.assign.server.spec import ServerAssignor
from kohort.node.fetch_sessions import FetchSessions
from kohort.node.services import Services
from kohort.wire.apis import Api

if TYPE_CHECKING:
    from kohort.node.client_connection import Request
    from kohort.node.groups.coordinator import Coordinator
    from kohort.node.groups.runtime import GroupObserver
    from kohort.node.transactions.transaction_coordinator import TransactionCoordinator


# -- which operations a client may do, as bit fields (KIP-430): all of them, since there is no authorizer

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
GROUP_OPERATIONS = _bits(READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
CLUSTER_OPERATIONS = _bits(CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE)


class ApiContext:
    """The first argument of every handler."""

    def __init__(
        self, services: Services, assignors: Mapping[str, ServerAssignor], observer: GroupObserver | None
    ) -> None:
        self.services = services
        self.config = services.config
        self.clock = services.clock
        self.random_bytes = services.random_bytes
        self.durability = services.durability
        self.state = services.state
        self.topics = services.state.topics
        self.users = services.config.sasl_users
        """Passwords by user name; without any, clients need not authenticate."""
        self.advertised = ("127.0.0.1", 9092)
        """Host and port for clients, in Metadata and FindCoordinator; set once the port is known."""
        self.fetch_sessions = FetchSessions(
            services.config.max_incremental_fetch_session_cache_slots, services.random_bytes
        )
        self._assignors = assignors
        self._observer = observer

    def overtaken_member(self, blocker: Request, group_id: str) -> str | None:
        """Return the member of the group whose JoinGroup or SyncGroup blocks the connection, if requests overtake."""
        waiting = blocker.message
        if blocker.route.api not in (Api.JOIN_GROUP, Api.SYNC_GROUP) or waiting is None or waiting.group_id != group_id:
            return None
        return waiting.member_id if self.config.kohort_group_requests_overtake else None

    @cached_property
    def coordinator(self) -> Coordinator:
        """The group coordinator, loaded at start where there are groups, else at first use."""
        from kohort.node.groups.coordinator import Coordinator

        coordinator = Coordinator(self.services, self._assignors, self._observer)
        coordinator.start()
        return coordinator

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator, loaded at start where there are transactional ids, else at first use."""
        from kohort.node.transactions.transaction_coordinator import TransactionCoordinator

        transactions = TransactionCoordinator(self.services, lambda: self.coordinator)
        transactions.start()
        return transactions

    @property
    def has_coordinator(self) -> bool:
        """Whether the group coordinator was loaded."""
        return "coordinator" in self.__dict__
