"""Client of a schema registry: the HTTP API of Confluent's, which Apicurio, Karapace, Redpanda and others have, too.

The law: an id that every registry's node answers to be unknown is unknown; anything else that is not a schema is an
outage or a refusal, and raises. Outages are tried again, on each node in turn, until `retry_ms` are over. Schemas never
change under their id, so that they are cached, up to a bound.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from kohort.model.extras import install_command
from kohort.model.setting import PASSWORD, STRING, read_texts, setting, settings_of, unknown

PREFIX: Final = "schema.registry."
URL: Final = f"{PREFIX}url"

_UNKNOWN: Final = (40401, 40402, 40403)
"""Error codes for a subject, a version and a schema that do not exist."""

_MOST_BYTES: Final = 16 << 20
_MOST_SCHEMAS: Final = 10_000
_MOST_REFERENCES: Final = 1_000
_UNKNOWN_FOR_S: Final = 60.0
_POSTED: Final = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 5.0

Answer = TypeVar("Answer")


class RegistryUnavailable(Exception):
    """The schema registry did not answer, or not as one: nothing is known of the schema, and no record is bad."""


class SchemaUnknown(LookupError):
    """The schema registry has no schema with this id, subject or version."""


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where a registry is and how it is reached, named as Confluent's clients name it."""

    # fmt: off
    urls: tuple[str, ...] = setting(MISSING, "Where it is: http://host:port, several with commas.", kind=STRING,
        name=URL)
    user_info: str = setting("", "user:password.", kind=PASSWORD, name=f"{PREFIX}basic.auth.user.info")
    token: str = setting("", "A token, instead of user and password.", kind=PASSWORD,
        name=f"{PREFIX}bearer.auth.token")
    ca_location: str = setting("", "A PEM file with the authorities that sign its certificate.",
        name=f"{PREFIX}ssl.ca.location")
    certificate_location: str = setting("", "A PEM file with the client's own certificate.",
        name=f"{PREFIX}ssl.certificate.location")
    key_location: str = setting("", "A PEM file with its key.", name=f"{PREFIX}ssl.key.location")
    timeout_ms: int = setting(10_000, "How long it may take to answer.", 1, name=f"{PREFIX}timeout.ms")
    retry_ms: int = setting(60_000, "How long outages are tried again.", 1, name=f"{PREFIX}retry.ms")
    # fmt: on

    @classmethod
    def parse(cls, given: str | Mapping[str, str]) -> RegistrySettings:
        """Parse a URL, several with commas between them, or settings by name. Raises ValueError."""
        named = {URL: given} if isinstance(given, str) else dict(given)
        texts = {PREFIX + name.removeprefix(PREFIX): str(value).strip() for name, value in named.items()}
        known = [each.name for each in settings_of(cls).values()]
        for name in sorted(texts.keys() - set(known)):
            raise unknown("a schema registry", name, known)
        found = read_texts(cls, texts.get)
        urls, user_info = [], found.get("user_info", "")
        for each in (part.strip() for part in found.get("urls", "").split(",")):
            parts = urlsplit(each)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"{URL}={_shown(each)!r}: expected http://host:port, or several with commas")
            if parts.username is not None:
                user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            urls.append(_shown(each).rstrip("/"))
        if user_info and found.get("token"):
            raise ValueError(f"{PREFIX}basic.auth.user.info and {PREFIX}bearer.auth.token cannot both be set")
        if user_info and ":" not in user_info:
            raise ValueError(f"{PREFIX}basic.auth.user.info takes user:password")
        return cls(**found | {"urls": tuple(urls), "user_info": user_info})


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema as the registry has it; `references` are the texts of the schemas that it uses, in order.

    `id` is -1 where it is not known, `guid` empty in registries that have none. `names` are the names under which a
    schema uses its references.
    """

    id: int
    kind: str
    text: str
    references: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    guid: str = ""


class Reference(NamedTuple):
    """A schema that another one uses: the name by which it uses it, and where it is registered."""

    name: str
    subject: str
    version: int


class Registry:
    """A registry and what is known of it. `wait` and `clock` are those of `time`."""

    def __init__(
        self,
        settings: RegistrySettings,
        wait: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._wait = wait
        self._clock = clock
        self._pool = _pool(settings)
        self._lock = threading.Lock()
        self._schemas: dict[int | str, Registered] = {}
        self._unknown: dict[int | str, float] = {}

    def learn(self, schemas: Iterable[Registered]) -> None:
        """Cache schemas that another process has looked up."""
        with self._lock:
            for each in schemas:
                self._schemas.setdefault(each.id, each)

    def schema(self, number: int | str) -> Registered:
        """Return the schema with an id, or with a GUID, which is a text. Raises SchemaUnknown, RegistryUnavailable."""
        with self._lock:
            if (found := self._schemas.get(number)) is not None:
                return found
            is_unknown = self._unknown.get(number, -1.0) > self._clock()
        if not is_unknown:
            try:
                answer = self._call(f"/schemas/{'ids' if isinstance(number, int) else 'guids'}/{number}")
                found = self._registered(number if isinstance(number, int) else answer.get("id", -1), answer)
            except SchemaUnknown:
                with self._lock:
                    _bound(self._unknown)[number] = self._clock() + _UNKNOWN_FOR_S
            else:
                with self._lock:
                    _bound(self._schemas)[number] = found
                return found
        raise SchemaUnknown(f"the schema registry {self} has no schema with the id {number}")

    def version(self, subject: str, version: int | str = "latest") -> Registered:
        """Return a version of a subject's schema. Raises SchemaUnknown, RegistryUnavailable."""
        found = self._call(f"/subjects/{quote(subject, safe='')}/versions/{version}")
        registered = self._registered(found.get("id", -1), found)
        self.learn([registered])
        return registered

    def register(
        self, subject: str, schema: Registered, references: Iterable[Reference] = (), *, is_new: bool = True
    ) -> Registered:
        """Return a schema with its ids, registered under a subject; without `is_new` it has to be there.

        Raises SchemaUnknown, RegistryUnavailable.
        """
        body: dict[str, Any] = {"schema": schema.text, "schemaType": schema.kind}
        body |= {"references": used} if (used := [each._asdict() for each in references]) else {}
        path = f"/subjects/{quote(subject, safe='')}"
        found = self._call(f"{path}/versions" if is_new else path, body)
        if type(number := found.get("id")) is not int:
            raise RegistryUnavailable(f"the schema registry {self} answered {_short(found)} where an id is expected")
        return replace(schema, id=number, guid=str(found.get("guid") or self._guid(number)))

    def _guid(self, number: int) -> str:
        return str(self._call(f"/schemas/ids/{number}").get("guid") or "")

    def __str__(self) -> str:
        return ",".join(self._settings.urls)

    def _registered(self, number: Any, found: Mapping[str, Any]) -> Registered:
        texts: dict[tuple[str, Any], str] = {}
        names: list[str] = []
        self._follow(found, texts, names, 0)
        kind, text = found.get("schemaType", "AVRO"), found.get("schema")
        if not isinstance(text, str) or type(number) is not int:
            raise RegistryUnavailable(f"the schema registry {self} answered {_short(found)} where a schema is expected")
        return Registered(number, str(kind), text, tuple(texts.values()), tuple(names), str(found.get("guid") or ""))

    def _follow(
        self, found: Mapping[str, Any], texts: dict[tuple[str, Any], str], names: list[str], depth: int
    ) -> None:
        """Add the schemas that a schema refers to, in the order in which they can be parsed."""
        for each in found.get("references") or ():
            key = each.get("subject", ""), each.get("version", "latest")
            if key in texts:
                continue
            if len(texts) >= _MOST_REFERENCES or depth > 50:
                raise RegistryUnavailable(f"the schema registry {self} has a schema with too many references")
            used = self._call(f"/subjects/{quote(str(key[0]), safe='')}/versions/{key[1]}")
            self._follow(used, texts, names, depth + 1)
            texts[key] = str(used.get("schema"))
            names.append(str(each.get("name", "")))

    def _call(self, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return the answer to a GET, or to a POST of `body`. Raises SchemaUnknown, RegistryUnavailable."""
        deadline = self._clock() + self._settings.retry_ms / 1000
        wait_s = _FIRST_WAIT_S
        while True:
            reasons, unknown = [], None
            for url in self._settings.urls:
                try:
                    return self._ask(url + path, body)
                except SchemaUnknown as reason:
                    unknown = reason
                except _Outage as reason:
                    reasons.append(str(reason))
            if not reasons:
                assert unknown is not None, "there is at least one URL"
                raise unknown
            if self._clock() + wait_s > deadline:
                raise RegistryUnavailable(
                    f"the schema registry cannot be read: {'; '.join(reasons)}. No record was dropped: start"
                    " the program again, or the query, when the registry answers again"
                )
            self._wait(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _ask(self, url: str, body: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Return the answer of one node. Raises SchemaUnknown, _Outage, RegistryUnavailable."""
        import urllib3

        try:
            more = {} if body is None else {"body": json.dumps(body), "headers": {**self._pool.headers, **_POSTED}}
            response = self._pool.request("GET" if body is None else "POST", url, preload_content=False, **more)
            try:
                content = response.read(_MOST_BYTES + 1)
            finally:
                response.release_conn()
                response.close()
        except urllib3.exceptions.HTTPError as error:
            raise _Outage(f"{url}: {_reason(error)}") from None
        try:
            found = json.loads(content) if len(content) <= _MOST_BYTES else None
        except (ValueError, RecursionError):
            found = None
        status = response.status
        if status == 200 and isinstance(found, dict):
            return found
        text = str(found.get("message", "")) if isinstance(found, dict) else ""
        if status == 404 and isinstance(found, dict) and found.get("error_code") in _UNKNOWN:
            raise SchemaUnknown(f"{url}: {text}")
        answered = f"{url} answered {status} {text[:200]}".rstrip()
        if status in (401, 403):
            raise RegistryUnavailable(
                f"the schema registry refuses access: {answered}. Set {PREFIX}basic.auth.user.info or"
                f" {PREFIX}bearer.auth.token"
            )
        if status in (409, 422):
            raise ValueError(f"the schema registry refuses a schema: {answered}")
        if status in (408, 425, 429) or status >= 500:
            raise _Outage(answered)
        raise RegistryUnavailable(f"{answered}, which is no answer of a schema registry: check {URL}")


class _Outage(Exception):
    """A node of the registry that does not answer now."""


@lru_cache(maxsize=16)
def registry_of(settings: RegistrySettings) -> Registry:
    """Return this process's client of a registry: its schemas are looked up once."""
    return Registry(settings)


def _pool(settings: RegistrySettings) -> Any:
    try:
        import urllib3
    except ImportError:
        raise ImportError(f"a schema registry needs urllib3: {install_command('schemas')}") from None
    headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
    if settings.user_info:
        headers |= urllib3.make_headers(basic_auth=settings.user_info)
    if settings.token:
        headers["Authorization"] = f"Bearer {settings.token}"
    secured = {
        "ca_certs": settings.ca_location,
        "cert_file": settings.certificate_location,
        "key_file": settings.key_location,
    }
    return urllib3.PoolManager(
        headers=headers,
        timeout=urllib3.Timeout(total=settings.timeout_ms / 1000),
        retries=urllib3.Retry(total=3, connect=0, read=0, status=0, other=0, redirect=3),
        **{name: value for name, value in secured.items() if value},
    )


def _bound(cache: dict[int | str, Answer]) -> dict[int | str, Answer]:
    """Return a cache with room for one more: what was added first goes first."""
    while len(cache) >= _MOST_SCHEMAS:
        del cache[next(iter(cache))]
    return cache


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None) or error
    return str(inner).rpartition(": ")[2] if "object at 0x" in str(inner) else str(inner)


def _shown(url: str) -> str:
    """Return a URL without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _short(found: Any) -> str:
    text = json.dumps(found)
    return text if len(text) <= 80 else f"{text[:77]}..."
