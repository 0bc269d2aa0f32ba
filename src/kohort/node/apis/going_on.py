"""Requests that go on when something else was answered, at once or once a record is durable."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps

AnswerT = TypeVar("AnswerT")
ResponseT = TypeVar("ResponseT")


def when_answered(
    request: Request,
    ask: Callable[[Callable[[AnswerT], None]], None],
    go_on: Callable[[AnswerT], Steps[ResponseT]],
) -> Steps[ResponseT | None]:
    """Call `ask` with a ticket, and `go_on` with what the ticket gets; return the response, None if it comes later."""
    answers: list[AnswerT] = []
    is_parked = False

    def ticket(answer: AnswerT) -> None:
        if is_parked:
            request.server.proceed(request, go_on(answer))
        else:
            answers.append(answer)

    ask(ticket)
    if answers:
        return (yield from go_on(answers[0]))
    is_parked = True
    return None
