"""Errors of TLS handshakes: which side refused what, and what to do about it."""

from __future__ import annotations

import ssl

from kohort.model.errors import ErrorCode, KafkaError

_HOST_NAME, _IP_ADDRESS = 62, 64  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_NOT_YET, _EXPIRED = 9, 10
_CLIENT_ALERTS = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "HANDSHAKE_FAILURE")


class TlsFailed(KafkaError):
    """A TLS handshake failed, and will fail again until a certificate or a setting changes."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, text)


class ListenerMismatch(KafkaError):
    """A broker closed the connection as it does where only one side uses TLS. A broker that ends may close it too."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, text)


ALERT = b"\x15\x03"
"""How the bytes begin by which a listener with TLS answers those of a client without."""


def met_tls(address: str, *, is_certain: bool = False) -> ListenerMismatch:
    """Return the error of a client without TLS; it is certain where the broker sent an alert."""
    seen = "expects TLS, which this client does not use"
    doubt = ""
    if not is_certain:
        seen = "closed the connection before its first answer, as a listener with TLS does with a client without"
        doubt = " if it is one; else it may be no broker"
    return ListenerMismatch(f"{address} {seen}: set security.protocol to SSL or SASL_SSL{doubt}")


def met_plain_text(address: str) -> ListenerMismatch:
    """Return the error of a client whose handshake found no TLS."""
    return ListenerMismatch(
        f"{address} closed the connection instead of beginning TLS, as a listener without TLS does: set"
        " security.protocol to PLAINTEXT or SASL_PLAINTEXT, or connect to the port of a listener with TLS"
    )


def tls_failure(address: str, error: ssl.SSLError) -> TlsFailed:
    """Return what the error of a handshake with `address` means for the user."""
    host = address.rpartition(":")[0]
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(f"{address} was not trusted: {_distrust(host, error)}")
    reason = getattr(error, "reason", None) or str(error)
    if any(alert in reason for alert in _CLIENT_ALERTS):
        advice = (
            "it wants one, signed by an authority that it trusts: load it with SSLContext.load_cert_chain, or name it"
            " in ssl.certificate.location and ssl.key.location"
        )
        return TlsFailed(f"{address} refused this client's certificate ({reason}): {advice}")
    advice = "is it a listener without TLS, or does it speak other versions of TLS?"
    return TlsFailed(f"{address} did not complete the TLS handshake ({reason}): {advice}")


def _distrust(host: str, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in (_HOST_NAME, _IP_ADDRESS):
        return (
            f"its certificate is for another host ({error.verify_message}): connect by a name that it lists, and see"
            f" that the broker's advertised.listeners uses one, or give it a certificate for {host!r}"
        )
    if error.verify_code == _EXPIRED:
        return "its certificate has expired: the broker needs a new one"
    if error.verify_code == _NOT_YET:
        return "its certificate is not valid yet: are both clocks right?"
    return (
        f"no authority that this client knows signed its certificate ({error.verify_message}): name the authority's"
        " certificate with ssl.create_default_context(cafile=…), or in ssl.ca.location"
    )
