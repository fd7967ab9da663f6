"""The manifests for Kubernetes, as ``kubectl`` makes them: what belongs together fits."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.files import ROOT
from tidemark.protocol.capture_file import CaptureFile, read_capture_file
from tidemark.testing.missing import lacks

FOLDER = ROOT / "deploy" / "kubernetes"
COMMANDS = ["capture", "materialize"]


@pytest.fixture(scope="module")
def manifests() -> list[dict[str, Any]]:
    if shutil.which("kubectl") is None:
        pytest.skip(lacks("there is no kubectl", "https://kubernetes.io/docs/tasks/tools/"))
    done = subprocess.run(["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture
def capture_file(manifests: list[dict[str, Any]], tmp_path: Path) -> CaptureFile:
    """As the pods have it."""
    (given,) = (manifest for manifest in manifests if manifest["kind"] == "ConfigMap")
    path = tmp_path / "shop.yaml"
    path.write_text(given["data"]["shop.yaml"])
    return read_capture_file(path)


def deployment(manifests: list[dict[str, Any]], command: str) -> dict[str, Any]:
    (found,) = (one for one in manifests if one["metadata"]["name"] == f"tidemark-shop-{command}")
    spec: dict[str, Any] = found["spec"]
    return spec


def pod(manifests: list[dict[str, Any]], command: str) -> dict[str, Any]:
    spec: dict[str, Any] = deployment(manifests, command)["template"]["spec"]
    return spec


def test_they_keep_the_schemas_of_kubernetes(manifests: list[dict[str, Any]]) -> None:
    try:
        schemas = importlib.import_module("kubernetes_validate")
    except ModuleNotFoundError:
        pytest.skip(lacks("there are no schemas of Kubernetes", "pip install kubernetes-validate"))
    for manifest in manifests:
        schemas.validate(manifest, "1.34", strict=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_there_is_never_more_than_one(command: str, manifests: list[dict[str, Any]]) -> None:
    spec = deployment(manifests, command)
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pod_may_nothing_that_it_does_not_need(command: str, manifests: list[dict[str, Any]]) -> None:
    spec = pod(manifests, command)
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "deploy/runtime/Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": int(user[1]),
        "runAsGroup": int(user[2]),
        "fsGroup": int(user[2]),
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False


@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_asked_where_it_answers(command: str, manifests: list[dict[str, Any]], capture_file: CaptureFile) -> None:
    assert capture_file.spark is not None
    entry = {"capture": capture_file.metrics, "materialize": capture_file.spark.metrics}[command]
    assert entry is not None and entry.host == ""
    (container,) = pod(manifests, command)["containers"]
    assert container["ports"] == [{"name": "metrics", "containerPort": entry.address[1]}]
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: (get["path"], get["port"]) for name, get in asked.items()} == {
        "startupProbe": ("/healthz", "metrics"),
        "livenessProbe": ("/healthz", "metrics"),
        "readinessProbe": ("/readyz", "metrics"),
    }
    annotations = deployment(manifests, command)["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(entry.address[1])


def test_what_the_capture_file_names_is_mounted(manifests: list[dict[str, Any]]) -> None:
    named = {Path(path).parent for path in re.findall(r"\{file: (\S+)\}", (FOLDER / "shop.yaml").read_text())}
    assert named <= _mounted(pod(manifests, "capture"))
    # Spark opens the store, and not the source.
    assert named - {Path("/run/secrets/shop")} <= _mounted(pod(manifests, "materialize"))
    assert Path("/run/secrets/shop") not in _mounted(pod(manifests, "materialize"))
    for command in COMMANDS:
        spec = pod(manifests, command)
        (container,) = spec["containers"]
        assert container["args"] == [command, "/etc/tidemark/shop.yaml"]
        assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in spec["volumes"]}
        assert not any("subPath" in mount for mount in container["volumeMounts"]), "it would not follow an edit"


def _mounted(spec: dict[str, Any]) -> set[Path]:
    (container,) = spec["containers"]
    return {Path(mount["mountPath"]) for mount in container["volumeMounts"]}


def test_the_policy_and_the_monitor_are_of_all_pods(manifests: list[dict[str, Any]]) -> None:
    (policy,) = (manifest for manifest in manifests if manifest["kind"] == "NetworkPolicy")
    monitor = yaml.safe_load((FOLDER / "pod-monitor.yaml").read_text())
    (expression,) = monitor["spec"]["selector"]["matchExpressions"]
    for command in COMMANDS:
        labels = deployment(manifests, command)["template"]["metadata"]["labels"]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        assert labels[expression["key"]] in expression["values"]
    assert policy["spec"]["ingress"][0]["ports"] == [{"port": "metrics"}]
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"


def test_an_edit_keeps_its_name(manifests: list[dict[str, Any]]) -> None:
    """With a hash in it, a new name would start the pods again."""
    (given,) = (manifest for manifest in manifests if manifest["kind"] == "ConfigMap")
    for command in COMMANDS:
        volumes = pod(manifests, command)["volumes"]
        assert {"name": "capture-file", "configMap": {"name": given["metadata"]["name"]}} in volumes
