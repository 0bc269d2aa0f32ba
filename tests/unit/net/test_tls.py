"""Errors of a failed TLS handshake: which side refused what, and what to do."""

from __future__ import annotations

import ssl

import pytest

from kohort.net.tls import tls_failure


def distrusted(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    return error


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (62, "connect by a name that it lists"),
        (64, "or give it a certificate for 'h'"),
        (10, "the broker needs a new one"),
        (9, "are both clocks right"),
        (20, "ssl.ca.location"),
    ],
)
def test_a_certificate_that_is_not_trusted(code: int, advice: str) -> None:
    failure = tls_failure("h:9093", distrusted(code, "why"))
    assert failure.text.startswith("h:9093 was not trusted: ")
    assert advice in failure.text


@pytest.mark.parametrize("alert", ["TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_BAD_CERTIFICATE"])
def test_a_broker_that_wants_a_certificate(alert: str) -> None:
    error = ssl.SSLError(1, f"[SSL: {alert}]")
    assert "load_cert_chain" in tls_failure("h:9093", error).text


def test_any_other_handshake_error_suggests_that_the_listener_has_no_tls() -> None:
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    assert "WRONG_VERSION_NUMBER" in tls_failure("h:9092", error).text
    assert "without TLS" in tls_failure("h:9092", error).text
