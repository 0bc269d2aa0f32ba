"""Our clients log in with signed tokens, whose keys the broker has in a file, or fetches from a URL."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Sasl
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.setting import SettingsError

jwt = pytest.importorskip("jwt")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")

KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


def jwks(*keys: tuple[str, Any]) -> str:
    algorithm = jwt.algorithms.ECAlgorithm
    made = [{**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"} for name, key in keys]
    return json.dumps({"keys": [*made, {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}]})


def token(key: Any = KEY, *, kid: str = "one", algorithm: str = "ES256", **claims: Any) -> str:
    stated = {"sub": "ann", "exp": int(time.time()) + 60, "aud": "kohort"} | claims
    made: str = jwt.encode(stated, key, algorithm=algorithm, headers={"kid": kid})
    return made


async def connect(broker: EmbeddedBroker, text: str) -> None:
    sasl = Sasl("OAUTHBEARER", token=lambda: text)
    async with Admin(broker.bootstrap_servers, sasl=sasl, start_timeout_ms=20_000) as admin:
        await admin.list_topics()


def secured(url: str) -> EmbeddedBroker:
    return EmbeddedBroker(
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=url,
        sasl_oauthbearer_expected_audience="kohort",
    )


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_text(jwks(("one", KEY)))
    return path


@pytest.fixture
def broker(keys: Path) -> Iterator[EmbeddedBroker]:
    with secured(keys.as_uri()) as broker:
        yield broker


def test_a_signed_token_lets_its_user_in(broker: EmbeddedBroker) -> None:
    asyncio.run(connect(broker, token()))


@pytest.mark.parametrize(
    "refused",
    [
        lambda: token(OTHER),
        lambda: token(OTHER, kid="other"),
        lambda: token("secret" * 8, kid="shared", algorithm="HS256"),
        lambda: token(None, algorithm="none"),
        lambda: token(aud="another"),
        lambda: token(exp=int(time.time()) - 60),
        lambda: token() + "x",
        lambda: "rubbish",
    ],
    ids=["wrong signature", "unknown key", "shared secret", "unsigned", "audience", "expired", "cut", "rubbish"],
)
def test_any_other_token_is_refused(broker: EmbeddedBroker, refused: Any, caplog: pytest.LogCaptureFixture) -> None:
    text = refused()
    with pytest.raises(KafkaError) as error:
        asyncio.run(connect(broker, text))
    assert error.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert text not in caplog.text + str(error.value)


def test_keys_in_a_file_are_read_again_when_it_changes(broker: EmbeddedBroker, keys: Path) -> None:
    keys.write_text("half a f")
    asyncio.run(connect(broker, token()))
    keys.write_text(jwks(("one", KEY), ("two", OTHER)))
    asyncio.run(connect(broker, token(OTHER, kid="two")))


@pytest.mark.parametrize(("text", "reason"), [("{}", "no public key"), ("[", "Expecting"), (None, "No such file")])
def test_a_file_without_keys_is_refused_at_the_start(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "empty.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match=reason):
        secured(path.as_uri()).start()


def test_keys_are_fetched_from_a_url() -> None:
    fetched = threading.Event()

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(jwks(("one", KEY)).encode())
        fetched.set()

    issuer = type("Issuer", (http.server.BaseHTTPRequestHandler,), {"do_GET": answer, "log_message": print})
    with http.server.HTTPServer(("127.0.0.1", 0), issuer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with secured(f"http://127.0.0.1:{server.server_port}/keys") as broker:
                assert fetched.wait(30)

                async def until_taken() -> None:
                    while True:
                        try:
                            return await connect(broker, token())
                        except KafkaError:  # the keys are on their way
                            continue

                asyncio.run(until_taken())
        finally:
            server.shutdown()
            thread.join()
