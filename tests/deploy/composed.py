"""The services of ``deploy/compose``, started: with the images that they name, or with others where none can be had."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.deploy.engine import docker
from tests.house.files import ROOT
from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import lacks

FILE = ROOT / "deploy" / "compose" / "compose.yaml"
STAND_INS = Path(__file__).with_name("stand_ins")
NAMES = ("postgres", "mariadb", "prometheus", "objects", "compose")


@dataclass(frozen=True)
class Composed:
    """Services that were started."""

    project: str
    command: Sequence[str]

    def compose(self, *arguments: str) -> str:
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    def execute(self, service: str, *command: str) -> str:
        return docker("exec", f"{self.project}-{service}-1", *command).stdout

    def wait_for(self, service: str, *command: str, answer: str) -> None:
        """Waits until a command in a service prints this."""

        def answers() -> bool:
            done = docker("exec", f"{self.project}-{service}-1", *command, check=False)
            return done.stdout.strip() == answer

        wait_until(answers, 90, f"{service}: {answer}", every=1)


@contextmanager
def composed(folder: Path) -> Iterator[Composed]:
    """Starts all services, and removes them afterwards with all they kept.

    Args:
        folder: An empty one, for what images are made of.
    """
    project = f"tidemark-test-{uuid4().hex[:8]}"
    files = ["--file", str(FILE)]
    if not all(_is_there(image) for image in images()):
        _make_stand_ins(folder)
        files += ["--file", str(STAND_INS / "override.yaml")]
    # Any ports of this machine that are free.
    ports = {"PROMETHEUS_PORT": "0", "GRAFANA_PORT": "0"}
    command = [*_compose(ports), "--project-name", project, *files]
    services = Composed(project, command)
    try:
        services.compose("up", "--detach", "--no-build")
        yield services
    finally:
        subprocess.run([*command, "down", "--volumes", "--timeout=5"], capture_output=True, check=False)


def images() -> set[str]:
    """Those that are not built here."""
    services: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
    return {service["image"] for service in services.values()} - {"tidemark/runtime"}


def _is_there(image: str) -> bool:
    return any(docker(*words, image, check=False).returncode == 0 for words in (("image", "inspect"), ("pull", "-q")))


def _compose(variables: dict[str, str]) -> list[str]:
    """The command, which reads these variables: the engine's own, else Debian's in a container."""
    if docker("compose", "version", check=False).returncode == 0:
        return ["env", *(f"{name}={value}" for name, value in variables.items()), "docker", "compose"]
    if docker("image", "inspect", "tidemark-test-compose", check=False).returncode != 0:
        pytest.skip(lacks("Docker has no compose", "apt-get install docker-compose-plugin"))
    socket = "/var/run/docker.sock"
    return [
        *("docker", "run", "--rm", f"--volume={socket}:{socket}", f"--volume={ROOT}:{ROOT}:ro"),
        *(f"--env={name}={value}" for name, value in variables.items()),
        "tidemark-test-compose",
    ]


def _make_stand_ins(folder: Path) -> None:
    gateway = os.environ.get("TIDEMARK_TEST_VERSITYGW") or str(Path(sys.prefix) / "bin" / "versitygw")
    if not Path(gateway).exists():
        pytest.skip(lacks("no image of an object store can be had, and there is no versitygw", "make versitygw"))
    for file in STAND_INS.iterdir():
        shutil.copy(file, folder)
    shutil.copy(gateway, folder / "versitygw")
    for name in NAMES:
        # The legacy builder makes all stages before the target, once: the first ones are in its cache then.
        docker("build", "--quiet", f"--target={name}", f"--tag=tidemark-test-{name}", str(folder))
