"""deploy/ as Helm, Kubernetes' schemas and systemd read it; what the gateway's chart renders, as a gateway does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from kohort.gateway.gateway_settings import GatewaySettings, read_settings

ROOT = Path(__file__).parents[2]
CHARTS = ROOT / "deploy" / "helm"
KUBERNETES = "1.37"
IMAGE = ("--set", "image.repository=registry.example/kohort")
EVERYTHING = {
    "kohort-gateway": (
        "--set", "replicas=3,instances.existingSecret=s,metrics.serviceMonitor.enabled=true,podLabels.a=b",
        "--set", "commandConfig.existingSecret=c,listenerTls.existingSecret=t,priorityClassName=high,nodeSelector.a=b",
        "--set", "assignors[0].groups=billing-*,assignors[0].assignor=uniform,settings.max_connections=100000",
    ),
    "kohort-exporter": (
        "--set", "commandConfig.existingSecret=c,serviceMonitor.enabled=true,serviceMonitor.labels.release=prometheus",
        "--set-string", "group=billing-.*|a: b",
    ),
    "kohort-run": (
        "--set", "commandConfig.existingSecret=c,serviceMonitor.enabled=true,replicas=3,env[0].name=A,env[0].value=b",
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def helm() -> str:
    """Helm of this machine, or built by Go on first use."""
    if found := shutil.which("helm"):
        return found
    if shutil.which("go") is None:
        pytest.skip("there is neither Helm nor Go to build it")
    folder = ROOT / "build" / "go"
    if not (folder / "helm").exists():
        environment = {**os.environ, "GOBIN": str(folder)}
        command = ["go", "install", "helm.sh/helm/v3/cmd/helm@v3.22.0"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            pytest.skip(f"Helm cannot be built: {done.stderr.strip()[-300:]}")
    return str(folder / "helm")


def template(helm: str, chart: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [helm, "template", "g", str(CHARTS / chart), "--kube-version", KUBERNETES, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def manifests(helm: str, chart: str, *options: str) -> list[dict[str, Any]]:
    done = template(helm, chart, *options)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def settings_in(rendered: list[dict[str, Any]]) -> GatewaySettings:
    [file] = [each["data"]["gateway.toml"] for each in rendered if each["kind"] == "ConfigMap"]
    return GatewaySettings(**read_settings(tomllib.loads(file)))


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("chart", sorted(EVERYTHING))
def test_a_chart_has_no_fault_that_helm_knows(helm: str, chart: str) -> None:
    command = [helm, "lint", "--strict", str(CHARTS / chart), "--kube-version", KUBERNETES, *IMAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("chart", sorted(EVERYTHING))
@pytest.mark.parametrize("is_all", [False, True], ids=["defaults", "everything"])
def test_what_a_chart_renders_is_what_kubernetes_takes(helm: str, chart: str, is_all: bool) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    rendered = manifests(helm, chart, *IMAGE, *(EVERYTHING[chart] if is_all else ()))
    for manifest in rendered:
        if manifest["kind"] != "ServiceMonitor":  # of Prometheus' operator
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    assert ("ServiceMonitor" in {each["kind"] for each in rendered}) is is_all


def test_the_gateway_reads_the_file_that_its_chart_renders(helm: str) -> None:
    alone = settings_in(manifests(helm, "kohort-gateway", *IMAGE))
    assert (alone.instances, alone.metrics, alone.drain_ms) == ((), ("0.0.0.0", 9404), 30_000)
    rendered = manifests(helm, "kohort-gateway", *IMAGE, *EVERYTHING["kohort-gateway"])
    several = settings_in(rendered)
    [pods] = [each["spec"] for each in rendered if each["kind"] == "StatefulSet"]
    hosts = [f"g-{number}.{pods['serviceName']}.default.svc:9500" for number in range(pods["replicas"])]
    assert several.instances == tuple(hosts)
    assert several.listener_tls is not None
    assert (several.max_connections, several.assignors[0].assignor) == (100_000, "uniform")
    assert pods["template"]["spec"]["terminationGracePeriodSeconds"] >= several.drain_ms / 1_000 + 5


def test_only_a_setting_that_needs_a_restart_replaces_the_pods(helm: str) -> None:
    base = (*IMAGE, "--set", "replicas=2,instances.existingSecret=s")

    def pods(*options: str) -> Any:
        rendered = manifests(helm, "kohort-gateway", *base, *options)
        return next(each["spec"]["template"] for each in rendered if each["kind"] == "StatefulSet")

    assert (
        pods("--set", "policies[0].treatment=observe,replicas=3,settings.max_connections=9,settings.advertised=x")
        == pods()
    )
    assert pods("--set", "settings.events=topic") != pods()


def test_values_of_the_guide_render(helm: str, tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "install.md").read_text(encoding="utf-8")
    [values] = re.findall(r"^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "values.yaml").write_text(values)
    settings = settings_in(manifests(helm, "kohort-gateway", "--values", str(tmp_path / "values.yaml")))
    assert len(settings.instances) == 2
    assert settings.policies.rows[0].groups == "billing-*"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "image.repository is empty: push the image"),
        ((*IMAGE, "--set", "replicas=2"), "instances.existingSecret is empty: instances share a secret"),
        ((*IMAGE, "--set", "settings.mod=listener"), "'mod' not allowed"),
        ((*IMAGE, "--set", "settings.mode=lisener"), "at '/settings/mode'"),
        ((*IMAGE, "--set", "policies[0].treatment=parked"), "at '/policies/0/treatment'"),
        ((*IMAGE, "--set", "service.ports=null"), "service.ports is empty"),
        ((*IMAGE, "--set", "replica=2"), "'replica' not allowed"),
    ],
)
def test_a_wrong_value_ends_with_what_is_wrong(helm: str, options: tuple[str, ...], sentence: str) -> None:
    done = template(helm, "kohort-gateway", *options)
    assert done.returncode == 1
    assert sentence in done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_have_no_fault_that_systemd_knows(tmp_path: Path) -> None:
    for unit in (ROOT / "deploy" / "systemd").glob("*.service"):
        text = unit.read_text(encoding="utf-8").replace(
            "/opt/kohort/bin/kohort", "/bin/true"
        )  # what is not there is one
        (tmp_path / unit.name).write_text(text)
    command = ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
