"""The kill test with the connector's image in place of the command, and ``docker kill`` as the killer."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.capture import SECONDS, Capture
from tests.end_to_end.test_kills import CONFIG, ROWS, kill_now_and_then
from tests.workload.tables import create_tables
from tests.workload.writers import Workload
from tidemark.demo.processes import Command
from tidemark.testing.missing import DOCKER_ENGINE, lacks
from tidemark.testing.servers.postgres import Database

IMAGE = "tidemark/postgres"
CAPTURE = f"killed-{os.getpid()}"

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(SECONDS + 900)]


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def image() -> str:
    if (
        not shutil.which("docker")
        or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0
    ):
        pytest.skip(DOCKER_ENGINE)
    if not docker("image", "ls", "--quiet", IMAGE):
        pytest.skip(lacks(f"there is no image {IMAGE}", "make images"))
    return IMAGE


def containers() -> list[str]:
    """Those of this test: the engine may run other people's captures."""
    return docker("container", "ls", "--quiet", "--filter", f"name=^tidemark-{CAPTURE}-").split()


@pytest.mark.drawn(5, of="processes that are killed")
def test_container_killed_again_and_again(database: Database, tmp_path: Path, image: str) -> None:
    create_tables(database, ROWS)
    # The engine's host network: the test's server listens on 127.0.0.1 only.
    connector = {"image": image, "network": "host"}
    capture = Capture(tmp_path, database, CONFIG, connector=connector, entries={"capture": CAPTURE})

    def kill_container(capture: Capture, running: Command) -> Command | None:
        for container in (ours := containers()):
            docker("kill", container)
        return running if ours else None

    with Workload(database, seed=6, keys=ROWS, rate=100) as workload:
        kill_now_and_then(capture, capture.start(), kill_container, 6)
        workload.stop()
    capture.catch_up()
    assert capture.differences() == []
    assert containers() == [], "a container was left behind"
