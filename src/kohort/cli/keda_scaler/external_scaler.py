"""gRPC service of KEDA's external scaler: `IsActive`, `StreamIsActive`, `GetMetricSpec`, `GetMetrics`; health checks.

The metric is the number of pods that a group shall have, and its target is 1 for each, so that the autoscaler asks for
as many. `StreamMetricSpec` is not offered, which KEDA takes as "the target does not change".
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kohort.cli.keda_scaler.protobuf import ScaledObjectRef, enumeration, metric, read_metrics_request
from kohort.cli.keda_scaler.scaled_groups import ScaledGroup, ScaledGroups, Unanswered
from kohort.cli.terminal.failure import CommandFailed
from kohort.group.autoscaling.scaling_decision import ScalingSettings
from kohort.model.extras import install_command
from kohort.model.setting import SettingsError, read_texts, settings_of, unknown

try:
    import grpc
except ImportError:  # the extra [keda] is not installed
    grpc = None

METRIC = "kohort-replicas"
OF_KEDA = ("scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey")
"""Metadata by which KEDA finds the scaler."""

FROM_ENVIRONMENT = "FromEnv"
"""The end of the name of a key whose value KEDA has taken from the environment of the pods."""

SERVING, NOT_SERVING = 1, 2
GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files of TLS: a certificate and its key, and, to demand certificates of clients, who signs those."""

    certificate: Path
    key: Path
    client_authority: Path | None = None

    def credentials(self) -> Any:
        """Return what a server needs; the files are read again for each new connection. Raises OSError."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(), self._configuration, require_client_authentication=self.client_authority is not None
        )

    def _configuration(self) -> Any:
        roots = None if self.client_authority is None else self.client_authority.read_bytes()
        return grpc.ssl_server_certificate_configuration(
            [(self.key.read_bytes(), self.certificate.read_bytes())], roots
        )


def settings_from(request: ScaledObjectRef) -> ScalingSettings:
    """Return the settings in the metadata of a trigger. Raises SettingsError."""
    known = {each.name for each in settings_of(ScalingSettings).values()}
    texts = {}
    for key, text in request.metadata.items():
        name = key if key in known else key.removesuffix(FROM_ENVIRONMENT)
        if name in known:
            texts[name] = text
        elif key not in OF_KEDA:
            raise unknown("the trigger", key, known, noun="metadata key")
    if not texts.get("consumerGroup"):
        raise SettingsError("the trigger has no metadata key consumerGroup: set it to the id of the group")
    return ScalingSettings(**read_texts(ScalingSettings, texts.get))


class ExternalScaler:
    """The service, and the server of it."""

    def __init__(self, groups: ScaledGroups) -> None:
        self._groups = groups
        self._server: Any = None
        self.port = 0

    async def start(self, host: str, port: int, tls: TlsFiles | None) -> None:
        """Listen. Raises CommandFailed."""
        if grpc is None:
            raise CommandFailed(f"the scaler needs grpcio: {install_command('keda')}")
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(self._handlers())
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if tls is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, tls.credentials())
        except RuntimeError as error:
            raise CommandFailed(f"cannot listen on {address}: is the port in use? {error}") from error
        await self._server.start()

    async def stop(self) -> None:
        """Let calls end that run, for a second."""
        if self._server is not None:
            await self._server.stop(GRACE_S)

    def _handlers(self) -> tuple[Any, ...]:
        unary, stream, read = (
            grpc.unary_unary_rpc_method_handler,
            grpc.unary_stream_rpc_method_handler,
            ScaledObjectRef.read,
        )
        scaler = {
            "IsActive": unary(self.is_active, read, enumeration),
            "StreamIsActive": stream(self.stream_is_active, read, enumeration),
            "GetMetricSpec": unary(self.get_metric_spec, read),
            "GetMetrics": unary(self.get_metrics, read_metrics_request),
        }
        return (
            grpc.method_handlers_generic_handler("externalscaler.ExternalScaler", scaler),
            grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": unary(self.check)}),
        )

    async def is_active(self, request: ScaledObjectRef, context: Any) -> bool:
        """Return whether a group shall have members at all."""
        async with _statuses(context):
            return (await self._group(request)).is_active
        raise AssertionError("a call without an answer is aborted")

    async def stream_is_active(self, request: ScaledObjectRef, context: Any) -> AsyncIterator[bool]:
        """Yield whether a group shall have members, at once and after each change."""
        before = None
        while True:
            async with _statuses(context):
                group = await self._group(request)
            if (is_active := group.is_active) is not before:
                yield is_active
            before = is_active
            await group.sampled()

    async def get_metric_spec(self, request: ScaledObjectRef, context: Any) -> bytes:
        """Return the name of the metric, and its target."""
        async with _statuses(context):
            settings_from(request)
        return metric(METRIC, 1)

    async def get_metrics(self, request: ScaledObjectRef, context: Any) -> bytes:
        """Return the number of pods that a group shall have."""
        async with _statuses(context):
            return metric(METRIC, (await self._group(request)).replicas)
        raise AssertionError("a call without an answer is aborted")

    async def check(self, _request: bytes, _context: Any) -> bytes:
        """Return whether the cluster answers."""
        return enumeration(SERVING if self._groups.is_reachable else NOT_SERVING)

    async def _group(self, request: ScaledObjectRef) -> ScaledGroup:
        return await self._groups.group(request.namespace, request.name, settings_from(request))


@asynccontextmanager
async def _statuses(context: Any) -> AsyncIterator[None]:
    """End a call with the status of what is raised within."""
    try:
        yield
    except SettingsError as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    except Unanswered as unanswered:
        await context.abort(grpc.StatusCode[unanswered.code], str(unanswered))
