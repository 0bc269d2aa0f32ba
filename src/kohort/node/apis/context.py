"""What the handlers of the APIs work with: the node's services, and the state that only requests have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from kohort.assign.server.spec import ServerAssignor
from kohort.node.authentication import Authentication, ClaimsOf
from kohort.node.authorization.access import Access
from kohort.node.authorization.api_checks import Check
from kohort.node.authorization.authorizer import Acls, Authorizer
from kohort.node.broker_state import Services
from kohort.node.client_connection import Request
from kohort.node.configuration.config import Config
from kohort.node.configuration.listeners import Listener, listeners_of
from kohort.node.fetch_sessions import FetchSessions
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api

if TYPE_CHECKING:
    from kohort.node.groups.coordinator import Coordinator
    from kohort.node.groups.runtime import GroupObserver
    from kohort.node.topics.topic import Topic
    from kohort.node.transaction_coordinator import TransactionCoordinator


class ApiContext:
    """The first argument of every handler."""

    def __init__(
        self,
        services: Services,
        assignors: Mapping[str, ServerAssignor],
        observer: GroupObserver | None,
        claims: Mapping[str, ClaimsOf],
    ) -> None:
        self.services = services
        self.config = services.config
        self.clock = services.clock
        self.random_bytes = services.random_bytes
        self.durability = services.durability
        self.state = services.state
        self.topics = services.state.topics
        self.access = Access(services.state.acls, authorizer_of(services.config, services.state.acls))
        """What the sender of a request may do."""
        self.listeners = listeners_of(services.config)
        """The listeners, the first of them first."""
        self.timers = services.timers
        self.authentication = Authentication(
            services.state.scram_credentials, services.random_bytes, services.clock, claims
        )
        self.fetch_sessions = FetchSessions(
            services.config.max_incremental_fetch_session_cache_slots, services.random_bytes
        )
        self._assignors = assignors
        self._observer = observer

    @property
    def listener(self) -> Listener:
        """The first listener: that of clients that came by no other."""
        return self.listeners[0]

    def find_topic(self, request: Request, check: Check, key: str | bytes) -> Topic:
        """Return the topic of a name or an id. Raises KafkaError; a check comes before it is known if a name exists."""
        access = self.access
        if access.authorizer is None:
            return self.topics.find(key)
        if isinstance(key, str):
            access.require(request.connection, check, key)
            return self.topics.find(key)
        topic = self.topics.find(key)
        access.require(request.connection, check, topic.name)
        return topic

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
        from kohort.node.groups.topic_image import ExpressionRights

        rights = None if self.access.authorizer is None else ExpressionRights(self.access)
        coordinator = Coordinator(self.services, self._assignors, self._observer, rights)
        coordinator.start()
        return coordinator

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator, loaded at start where there are transactional ids, else at first use."""
        from kohort.node.transaction_coordinator import TransactionCoordinator

        transactions = TransactionCoordinator(self.services, lambda: self.coordinator)
        transactions.start()
        return transactions

    @property
    def has_coordinator(self) -> bool:
        """Whether the group coordinator was loaded."""
        return "coordinator" in self.__dict__


def authorizer_of(config: Config, acls: Acls) -> Authorizer | None:
    """Return the authorizer that the settings name, None where they name none."""
    if not config.authorizer_class_name:
        return None
    return Authorizer(acls, config.super_user_names, allows_without_acl=config.allow_everyone_if_no_acl_found)


AnswerT = TypeVar("AnswerT")
ResponseT = TypeVar("ResponseT")


def when_answered(
    request: Request,
    ask: Callable[[Callable[[AnswerT], None]], None],
    proceed: Callable[[AnswerT], Steps[ResponseT]],
) -> Steps[ResponseT | None]:
    """Call `ask` with a ticket, and `proceed` with its answer; return the response, None if that comes later."""
    answers: list[AnswerT] = []
    is_parked = False

    def ticket(answer: AnswerT) -> None:
        if is_parked:
            request.server.proceed(request, proceed(answer))
        else:
            answers.append(answer)

    ask(ticket)
    if answers:
        return (yield from proceed(answers[0]))
    is_parked = True
    return None
