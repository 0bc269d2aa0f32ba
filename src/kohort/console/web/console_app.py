"""The ASGI application of the console: its routes, behind the check of who may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from kohort.client import Cluster
from kohort.console.cluster_poller import ClusterPoller
from kohort.console.command_runs import CommandRuns
from kohort.console.metrics_sources import read_metrics
from kohort.console.web.cluster_page import cluster_page
from kohort.console.web.console_access import HEADERS, ConsoleAccess
from kohort.console.web.group_actions import ACTIONS, action_page, run_action
from kohort.console.web.group_pages import groups_form
from kohort.console.web.live_updates import PAGES, LiveUpdates
from kohort.console.web.plan_page import plan_page
from kohort.console.web.site import Shown, Site
from kohort.console.web.topic_pages import read_records, topics_page
from kohort.drawing.html_page import page_style
from kohort.model.errors import KafkaError
from kohort.model.extras import install_command
from kohort.schemas.registry import Registry

try:
    from starlette.applications import Starlette
    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, RedirectResponse, Response
    from starlette.routing import Mount, Route
except ImportError as cause:
    raise ImportError(f"kohort console needs Starlette: {install_command('console')}") from cause

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

_TOKEN = "token"


_FORM_BYTES = 65_536
FRESH_MS = 30_000
"""How old a look at topics may be when their page is opened."""
LOOK_S = 2.0
"""How long the page of a group that is not listed waits for the next look."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where pages get what they show: looks, requests, records, commands, and the file of a fleet's report.

    `registry` has the schemas of records, `metrics_urls` are the endpoints of brokers and gateways.
    """

    poller: ClusterPoller
    cluster: Cluster
    new_consumer: Callable[[], Any]
    runs: CommandRuns
    fleet_report: Path | None = None
    registry: Registry | None = None
    metrics_urls: tuple[str, ...] = ()


def console_app(site: Site, sources: Sources, access: ConsoleAccess) -> App:
    """Return the application."""
    pages = _Pages(site, sources, access)
    routes = [
        Route("/", pages.groups),
        Route("/group", pages.group),
        Route("/plan", pages.plan),
        Route("/topics", pages.topics),
        Route("/topic", pages.topic),
        Route("/cluster", pages.cluster),
        Route("/fleet", pages.fleet),
        Route("/action/{name}", pages.action, methods=["GET", "POST"]),
        Route("/live/{name}", _Stream(pages.updates)),
        Route("/static/{version}/{name}", pages.static),
    ]
    inner = Starlette(
        routes=[Mount(site.prefix, routes=routes)] if site.prefix else routes,
        exception_handlers={404: pages.not_found, 500: pages.failed},
    )
    return _Guard(inner, site, access)


class _Guard:
    """Answers requests that may not pass, and adds the headers of all responses."""

    def __init__(self, inner: Any, site: Site, access: ConsoleAccess) -> None:
        self._inner = inner
        self._site = site
        self._access = access

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [
                    (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given
                ]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        answer = self._answer(scope) or self._inner
        await answer(scope, receive, send_with_headers)

    def _answer(self, scope: dict[str, Any]) -> Any:
        """Return the response to a request that may not pass, None for one that may."""
        headers = Headers(scope=scope)
        peer = (scope.get("client") or ("",))[0]
        if not self._access.is_known_host(headers):
            sentence = (
                "This console is not known by the name in the address. Open the address that `kohort console` has"
                " printed; behind a proxy, start it with --allowed-host NAME."
            )
            return self._message(421, "Another name", sentence)
        request = Request(scope)
        token = request.query_params.get(_TOKEN)
        if token is not None and scope["method"] == "GET":
            if not self._access.is_token(token):
                return self._message(403, "Wrong token", "The token in the address is not that of this console.")
            rest = [(name, value) for name, value in request.query_params.multi_items() if name != _TOKEN]
            place = "/" + quote(scope["path"].lstrip("/"))  # one that begins with two slashes is another site's
            response = RedirectResponse(place + _query(rest), status_code=303)
            response.set_cookie(
                self._access.cookie_name,
                self._access.cookie(),
                path=self._site.prefix or "/",
                httponly=True,
                samesite="strict",
                secure=request.headers.get("x-forwarded-proto") == "https",
            )
            return response
        is_static = scope["path"].startswith(f"{self._site.prefix}/static/")
        if is_static or self._access.user(headers, peer) is not None:
            return None
        sentence = "Open the address that `kohort console` has printed: it has a token, which this browser needs once."
        return self._message(401, "Not logged in", sentence)

    def _message(self, status: int, title: str, sentence: str) -> Any:
        page = self._site.render("denied.html", title=title, sentence=sentence, version=VERSION)
        return HTMLResponse(page, status)


def _query(values: list[tuple[str, str]]) -> str:
    return f"?{urlencode(values)}" if values else ""


async def _form(request: Any) -> dict[str, str]:
    """Return the fields of a form; nothing for one that is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _FORM_BYTES:
            return {}
    fields = parse_qs(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=50)
    return {name: found[-1] for name, found in fields.items()}


class _Stream:
    """A route that is an ASGI application of its own."""

    def __init__(self, run: Callable[[dict[str, Any], Receive, Send], Awaitable[None]]) -> None:
        self._run = run

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await self._run(scope, receive, send)


class _Pages:
    """One function for each route."""

    def __init__(self, site: Site, sources: Sources, access: ConsoleAccess) -> None:
        self._site = site
        self._sources = sources
        self._access = access
        self._live = LiveUpdates(site, sources.poller)

    async def groups(self, request: Any) -> Any:
        return self._shown("groups", request.query_params, form=groups_form(request.query_params))

    async def group(self, request: Any) -> Any:
        values, poller = request.query_params, self._sources.poller
        group_id = values.get("id", "")
        if group_id not in self._site.watched.groups:  # it may be newer than the last look
            version = self._site.watched.version
            poller.look_soon(group_id)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await poller.changed(version)
        found = self._shown("group", values, group_id=group_id, minutes=values.get("minutes", "15"))
        if found is not None:
            return found
        sentence = "There is no such group on this cluster: it was deleted, or no member has joined it yet."
        return self._message(404, f"No group {group_id}", sentence)

    async def plan(self, request: Any) -> Any:
        return self._once(await plan_page(self._site, self._sources.runs, request.query_params), here="plan")

    async def topics(self, request: Any) -> Any:
        values = request.query_params
        await self._look_at_topics(lambda: topics_page(self._site, values).topics)
        return self._shown("topics", values, words=values.get("q", ""), internal=values.get("internal", ""))

    async def topic(self, request: Any) -> Any:
        values, sources = request.query_params, self._sources
        name = values.get("name", "")
        await self._look_at_topics(lambda: (name,))
        records = await read_records(sources.cluster, sources.new_consumer, sources.registry, values)
        found = self._shown("topic", values, topic_name=name, asked=values, records=records)
        return found or self._message(404, f"No topic {name}", "There is no such topic.")

    async def _look_at_topics(self, names: Callable[[], tuple[str, ...]]) -> None:
        """Look at the topics of a page, unless that was done a moment ago."""
        watched, poller = self._site.watched, self._sources.poller
        watched.topics.views = poller.cluster.view.topics
        if watched.topics.is_read(names(), self._site.now_ms() - FRESH_MS):
            return
        try:
            if not poller.cluster.view.topics.keys() >= set(names()):
                await poller.cluster.force_refresh()  # one may be newer than what is known
            await poller.look_at_topics(names())
        except (KafkaError, OSError, TimeoutError) as error:
            watched.topics.remark = str(error)

    async def cluster(self, _request: Any) -> Any:
        measured = await read_metrics(self._sources.metrics_urls)
        return self._once(cluster_page(self._site, self._sources.cluster, measured), here="cluster")

    async def fleet(self, _request: Any) -> Any:
        path = self._sources.fleet_report
        if path is None:
            return self._once(Shown("fleet.html", {}), here="fleet")
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return self._message(404, "No report", f"{path} cannot be read: {error.strerror}.")
        # The report has a policy of its own, by which its one script and its style are known.
        return HTMLResponse(text, headers={"content-security-policy": "frame-ancestors 'none'; base-uri 'none'"})

    async def action(self, request: Any) -> Any:
        name = request.path_params["name"]
        if name not in ACTIONS:
            return self._message(404, "No such action", f"There are {', '.join(ACTIONS)}.")
        if request.method == "GET":
            token = self._access.form_token()
            shown = await action_page(self._site, self._sources.runs, name, request.query_params, token)
            return self._once(shown)
        if not self._site.allows_changes:
            return self._message(
                403, "Read-only", "Start the console with --allow-changes, or run the command yourself."
            )
        values = await _form(request)
        if not self._access.is_own_form(request.headers, values.get("form_token", "")):
            return self._message(403, "Another page", "The form was not sent by a page of this console: open it again.")
        peer = "" if request.client is None else request.client.host
        user = self._access.user(request.headers, peer) or ""
        shown = await run_action(self._site, self._sources.runs, name, values, user)
        self._sources.poller.look_soon(values.get("id", ""))
        return self._once(shown)

    def _once(self, shown: Shown, here: str = "") -> Any:
        page = self._site.render(shown.template, version=VERSION, here=here, **shown.values)
        return HTMLResponse(page, shown.status)

    def _shown(self, name: str, values: Mapping[str, str], **more: Any) -> Any:
        page = self._live.page(name, values)
        if page is None:
            return None
        return HTMLResponse(self._site.render(page.template, page=page, version=VERSION, **more))

    async def updates(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        request = Request(scope)
        name = request.path_params["name"]
        if name not in PAGES:
            await self._message(404, "No such page", "")(scope, receive, send)
            return
        await self._live.stream(name, dict(request.query_params), receive, send)

    async def static(self, request: Any) -> Any:
        found = _STATIC.get(request.path_params["name"])
        if found is None:
            return Response(status_code=404)
        kind, text = found
        return Response(text, media_type=kind, headers={"cache-control": "private, max-age=31536000, immutable"})

    async def not_found(self, _request: Any, _error: Exception) -> Any:
        return self._message(404, "No such page", "The address names no page of this console.")

    async def failed(self, _request: Any, error: Exception) -> Any:
        sentence = f"A fault of kohort itself: {type(error).__name__}. The log of the console has the place."
        return self._message(500, "This page failed", sentence)

    def _message(self, status: int, title: str, sentence: str) -> Any:
        page = self._site.render("message.html", title=title, sentence=sentence, version=VERSION)
        return HTMLResponse(page, status)


def _resource(name: str) -> str:
    return files("kohort.console.web").joinpath(name).read_text(encoding="utf-8")


_STATIC = {
    "console.css": ("text/css", page_style() + _resource("console.css")),
    "console.js": ("text/javascript", _resource("console.js")),
    "icon.svg": ("image/svg+xml", _resource("icon.svg")),
}
VERSION = sha256("".join(text for _, text in _STATIC.values()).encode()).hexdigest()[:12]
"""Part of the addresses of style and script, which browsers store for good."""
