"""The Docker engine, as a person uses it, and containers of the runtime image."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.house.files import ROOT
from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import DOCKER_ENGINE

HARDENED = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=host")
"""As docs/service.md has it. The tests' servers listen on 127.0.0.1 of the machine only."""

INTERRUPTED = 130

SLIM = "postgres,mysql"


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done


def runtime_image(extras: str = "") -> str:
    """The runtime image as the sources are now; skips the test where there is no engine."""
    if not shutil.which("docker") or docker("info", check=False).returncode != 0:
        pytest.skip(DOCKER_ENGINE)
    command = ["make", "runtime-image", f"PYTHON={sys.executable}", *([f"EXTRAS={extras}"] if extras else [])]
    # Without what a `make test` around us hands down to its children.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    built = subprocess.run(command, cwd=ROOT, env=inherited, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    return "tidemark/runtime-slim" if extras else "tidemark/runtime"


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@dataclass(frozen=True)
class Container:
    """A running container."""

    name: str

    def inspect(self) -> Any:
        return json.loads(docker("inspect", self.name).stdout)[0]

    @property
    def health(self) -> str:
        """``starting``, ``healthy`` or ``unhealthy``."""
        return str(self.inspect()["State"]["Health"]["Status"])

    @property
    def said(self) -> str:
        done = docker("logs", self.name)
        return done.stdout + done.stderr

    def execute(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return docker("exec", self.name, *command, check=check)

    def wait_for_health(self) -> None:
        def healthy() -> bool:
            assert self.inspect()["State"]["Running"], self.said
            return self.health == "healthy"

        wait_until(healthy, 60, "the container is healthy", every=0.5)

    def stop(self) -> int:
        """Stops it as an upgrade does. Returns its exit status."""
        docker("stop", "--time=60", self.name)
        return int(self.inspect()["State"]["ExitCode"])

    def start(self) -> None:
        docker("start", self.name)


@contextmanager
def container(image: str, folder: Path, *command: str) -> Iterator[Container]:
    """A hardened container, whose capture files are those of a folder; removed afterwards with its volumes.

    The folder is mounted twice: read-only where capture files belong, and under its own name for what they name.
    """
    folder.chmod(0o777)  # The container's user is none of this machine.
    name = f"tidemark-test-{uuid4().hex[:12]}"
    docker(
        *("run", "--detach", f"--name={name}", *HARDENED, "--health-interval=1s"),
        *(f"--volume={folder}:/etc/tidemark:ro", f"--volume={folder}:{folder}", image, *command),
    )
    try:
        yield Container(name)
    finally:
        docker("rm", "--force", "--volumes", name, check=False)
