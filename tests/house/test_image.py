"""The connector image: what is in it, and how it behaves as a container."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.house.files import ROOT
from tidemark.testing.missing import DOCKER_ENGINE

pytestmark = [pytest.mark.docker, pytest.mark.slow]

IMAGE = "tidemark/postgres"
HARDENED = ["--rm", "--interactive", "--read-only", "--cap-drop=ALL", "--network=none"]


def docker(*arguments: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], input=stdin, capture_output=True, text=True, check=check)


@pytest.fixture(scope="module")
def image() -> str:
    """The image as the sources are now."""
    if not shutil.which("docker") or docker("info", check=False).returncode != 0:
        pytest.skip(DOCKER_ENGINE)
    built = subprocess.run(
        ["make", "images", f"PYTHON={sys.executable}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    return IMAGE


@pytest.fixture(scope="module")
def config(image: str) -> Any:
    return json.loads(docker("image", "inspect", image).stdout)[0]["Config"]


def test_its_labels_say_what_it_speaks(config: Any) -> None:
    labels = config["Labels"]
    assert labels["FLOW_RUNTIME_PROTOCOL"] == "capture"
    assert labels["FLOW_RUNTIME_CODEC"] == "json"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_its_user_is_a_number_and_not_root(config: Any) -> None:
    user, group = config["User"].split(":")
    assert int(user) > 0 and int(group) > 0


def test_it_answers_spec_on_a_read_only_root_without_a_network(image: str) -> None:
    ended = docker("run", *HARDENED, image, stdin='{"spec":{}}\n')
    (line,) = ended.stdout.splitlines()
    assert json.loads(line)["spec"]["protocol"] == 3032023
    assert ended.stderr == ""


def test_an_error_is_the_last_line_and_the_exit_status(image: str) -> None:
    ended = docker("run", *HARDENED, image, stdin="no json\n", check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert json.loads(ended.stderr.splitlines()[-1])["fields"]["code"] == "TM-PRO-001"


def test_nothing_is_in_it_that_a_connector_does_not_need(image: str) -> None:
    ask = "import importlib.util as u, sys; print([m for m in sys.argv[1:] if u.find_spec(m)])"
    absent = ["pyspark", "pyarrow", "pandas", "deltalake", "docker", "obstore", "typer", "rich", "pip"]
    absent += ["tidemark.runtime", "tidemark.spark_sink", "tidemark.demo", "tidemark.testing", "captures", "tests"]
    present = ["tidemark.captures", "psycopg"]
    ended = docker("run", *HARDENED, "--entrypoint=python", image, "-c", ask, *absent, *present)
    assert ended.stdout.strip() == str(present)


def test_it_ends_at_once_when_it_is_told_to(image: str) -> None:
    """Python is the container's first process, so it gets the signal and has to handle it."""
    name = f"tidemark-test-signal-{os.getpid()}"
    running = subprocess.Popen(
        ["docker", "run", *HARDENED, f"--name={name}", image],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write(b'{"spec":{}}\n')
        running.stdin.flush()
        assert running.stdout.readline().startswith(b'{"spec":')
        began = time.monotonic()
        docker("stop", "--time=60", name)
        assert running.wait(timeout=60) == 143
        assert time.monotonic() - began < 30, "the engine had to kill it"
    finally:
        docker("rm", "--force", name, check=False)
        running.wait(timeout=60)
        for stream in (running.stdin, running.stdout, running.stderr):
            if stream is not None:
                stream.close()
