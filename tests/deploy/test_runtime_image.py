"""The runtime image: what is in it, and that it captures and keeps tables as a service that nobody watches."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.engine import INTERRUPTED, SLIM, Container, container, docker, free_port, runtime_image
from tests.end_to_end.capture import Capture, own_process
from tests.examples import ALL
from tests.operations.test_lag import slot_of
from tests.workload.tables import create_tables, source_of
from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import lacks
from tidemark.testing.servers.postgres import Database

pytestmark = [pytest.mark.docker, pytest.mark.slow]

IN_FILE = "/etc/tidemark/capture.yaml"


@pytest.fixture(scope="module")
def image() -> str:
    """The one without Spark, which is made in a third of the time."""
    return runtime_image(SLIM)


@pytest.fixture(scope="module")
def whole_image() -> str:
    if not ALL:
        pytest.skip(lacks("the runtime image with Spark, which takes a minute and a half", "TIDEMARK_TEST_ALL=1"))
    return runtime_image()


def test_its_user_is_not_root_and_its_health_is_not_its_readiness(image: str) -> None:
    config = json.loads(docker("image", "inspect", image).stdout)[0]["Config"]
    assert config["User"] == "65532:65532"
    assert config["Healthcheck"]["Test"] == ["CMD", "python", "-m", "tidemark.runtime.metrics.health"]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert list(config["Volumes"]) == ["/var/lib/tidemark"]


def test_it_has_the_connectors_and_neither_compilers_nor_pip(image: str) -> None:
    ask = (
        "import sys; from importlib.util import find_spec; from shutil import which; "
        "print([name for name in sys.argv[1:] if find_spec(name) or which(name)])"
    )
    present = ["tidemark.connectors.postgres", "tidemark.connectors.mysql", "psycopg", "pymysql", "pyarrow", "tidemark"]
    absent = ["pip", "gcc", "cc", "curl", "java", "pyspark", "tidemark.demo", "tests"]
    ended = docker("run", "--rm", "--read-only", "--entrypoint=python", image, "-c", ask, *absent, *present)
    assert ended.stdout.strip() == str(present)


def captured(database: Database, folder: Path, **entries: Any) -> Capture:
    served = {"metrics": {"listen": f":{free_port()}"}, "readable_by": "all"}
    config = {**slot_of(database), "password": {"file": str(secret_of(database, folder))}}
    return Capture(folder, database, config, connector=own_process(database), entries={**served, **entries})


def secret_of(database: Database, folder: Path) -> Path:
    path = folder / "password"
    path.write_text(str(source_of(database).config()["password"]))
    return path


@pytest.mark.parametrize("fixture", ["database", "mariadb_database"])
def test_it_captures_until_it_is_told_to_stop(
    fixture: str, image: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database: Database = request.getfixturevalue(fixture)
    create_tables(database, 50)
    capture = captured(database, tmp_path)
    with container(image, tmp_path, "capture", IN_FILE) as running:
        running.wait_for_health()
        wait_until(lambda: capture.log.exists() and is_equal(capture), 60, "all is captured", every=0.5)
        assert running.execute("id", "-u").stdout.strip() == "65532"
        assert "Read-only file system" in running.execute("touch", "/etc/more", check=False).stderr
        assert zombies(running) == []
        told = json.loads(running.execute("tidemark", "status", IN_FILE, "--json").stdout)
        assert told["capture"] == "test" and told["running"], told
        began = time.monotonic()
        assert running.stop() == INTERRUPTED, running.said
        assert time.monotonic() - began < 30, "the engine had to kill it"
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE accounts SET name = 'another'")
        assert not is_equal(capture)
        running.start()
        wait_until(lambda: is_equal(capture), 60, "what happened meanwhile is captured", every=0.5)
        assert running.stop() == INTERRUPTED, running.said


def is_equal(capture: Capture) -> bool:
    return capture.differences() == []


def zombies(running: Container) -> list[str]:
    """Processes that have ended and that nobody has asked for their exit status."""
    code = "import glob; print([s for s in (open(f).read() for f in glob.glob('/proc/[0-9]*/stat')) if ') Z ' in s])"
    found: list[str] = json.loads(running.execute("python", "-c", code).stdout.replace("'", '"'))
    return found


def test_a_capture_without_metrics_is_healthy_while_it_lives(database: Database, image: str, tmp_path: Path) -> None:
    create_tables(database, 1)
    capture = captured(database, tmp_path)
    capture.entries.pop("metrics")
    capture.write()
    with container(image, tmp_path, "capture", IN_FILE) as running:
        running.wait_for_health()
        # Before it has begun a signal ends it with another status.
        wait_until(lambda: capture.log.exists() and is_equal(capture), 60, "all is captured", every=0.5)
        assert running.stop() == INTERRUPTED, running.said


def test_it_keeps_tables(database: Database, whole_image: str, tmp_path: Path) -> None:
    create_tables(database, 50)
    spark = {"warehouse": str(tmp_path / "lake"), "master": "local[1]", "metrics": {"listen": f":{free_port()}"}}
    capture = captured(database, tmp_path, spark=spark)
    with (
        container(whole_image, tmp_path, "capture", IN_FILE) as capturing,
        container(whole_image, tmp_path, "materialize", IN_FILE) as keeping,
    ):
        capturing.wait_for_health()
        keeping.wait_for_health()
        wait_until(lambda: are_kept(capture), 120, "the tables are those of the source", every=1)
        assert keeping.stop() == INTERRUPTED, keeping.said
        assert capturing.stop() == INTERRUPTED, capturing.said


def are_kept(capture: Capture) -> bool:
    tables = [(capture.lake / name.replace(".", "/") / "current") for name in source_of(capture.database).tables()]
    return all((table / "_delta_log").exists() for table in tables) and capture.lake_differences() == []
