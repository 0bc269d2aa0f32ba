"""TLS of a gateway: files that hold no certificate are refused by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.gateway.gateway_settings import BrokerTls, ListenerTls
from kohort.gateway.server.gateway_ports import broker_context, listener_context
from kohort.model.setting import SettingsError


def test_files_without_a_certificate_are_named(tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    with pytest.raises(SettingsError, match=r"listener_tls: .*rubbish\.pem gives no certificate and key"):
        listener_context(ListenerTls(certificate=str(rubbish)))
    with pytest.raises(SettingsError, match=r"broker_tls\.authority: .*rubbish\.pem has no certificate"):
        broker_context(BrokerTls(authority=str(rubbish)))
    with pytest.raises(SettingsError, match=r"listener_tls: cannot read .*missing\.pem"):
        listener_context(ListenerTls(certificate=str(tmp_path / "missing.pem")))
