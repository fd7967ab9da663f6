"""What ``tidemark status`` says in an outage, with a real source, and afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.capture import Capture, own_process
from tests.operations.status import report
from tests.workload.tables import Database, create_tables, source_of
from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import lacks
from tidemark.testing.tcp_proxy import proxied


def status(capture: Capture) -> dict[str, Any]:
    return report(capture) or {"state": "no log yet", "caught_up": None, "error": None}


def is_caught_up(capture: Capture) -> bool:
    return bool(status(capture)["caught_up"])


def slot_of(database: Database) -> dict[str, Any]:
    return {"slot": source_of(database).config()["database"]} if hasattr(database, "dsn") else {}


@pytest.mark.drawn(1)
def test_a_source_that_is_away(each_database: Database, tmp_path: Path) -> None:
    create_tables(each_database, 20)
    config = source_of(each_database).config()
    with proxied(str(config["host"]), int(config["port"])) as proxy:
        through = {**slot_of(each_database), "host": "127.0.0.1", "port": proxy.port}
        capture = Capture(tmp_path, each_database, through)
        with capture.start():
            wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
            assert status(capture)["lag_seconds"] == 0
            proxy.stall()
            proxy.reset()
            wait_until(lambda: status(capture)["state"] == "waiting for the source", 30, "the outage is told")
            told = status(capture)
            assert told["source_away_since"]
            assert told["error"]["passed"] is None
            assert (told["lag_seconds"], told["caught_up"]) == (None, None)
            assert told["retained"]["bytes"] is not None and told["retained"]["as_of"] < told["source_away_since"]
            assert "ago; unknown since then" in capture.run("status").said
            proxy.flow()
            wait_until(lambda: is_caught_up(capture), 60, "it is back")
            assert status(capture)["error"]["passed"]
            assert (status(capture)["source_away_since"], status(capture)["retained"]["as_of"]) == (None, None)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(options, check=False, capture_output=True).returncode:
        pytest.skip(lacks("no small file system can be mounted", "make test as root, outside of a container"))
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_disk_that_is_full(database: Any, small_disk: Path, tmp_path: Path) -> None:
    create_tables(database, 20)
    (small_disk / "state").mkdir()
    (tmp_path / ".capture.yaml.tidemark").symlink_to(small_disk / "state")
    capture = Capture(tmp_path, database, slot_of(database), entries={"log": str(small_disk / "log")})
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        before = status(capture)["data"]
        with (small_disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError):
            while filler.write(bytes(4096)):
                pass
        with database.connect() as connection:
            connection.execute("UPDATE accounts SET name = name || '.'")
        wait_until(lambda: (status(capture)["error"] or {}).get("code") == "TM-LOG-008", 30, "the full disk is told")
        told = status(capture)
        assert told["error"]["passed"] is None
        checked = capture.run("check")
        assert (checked.status, "TM-LOG-008" in checked.said) == (3, True), checked.said
        assert told["data"]["commit"] == before["commit"]
        assert "what to do" in capture.run("status").said
        full = "needs    you: the state folder cannot be written\n"
        wait_until(lambda: full in capture.run("status").said, 10, "the state folder is told, too")
        (small_disk / "filler").unlink()
        wait_until(lambda: status(capture)["error"]["passed"], 60, "there is space again")
        assert status(capture)["data"]["commit"] > before["commit"]
        wait_until(lambda: status(capture)["folder_error"] is None, 10, "so has the state folder")


@pytest.mark.drawn(1)
def test_a_connector_that_hangs(each_database: Database, tmp_path: Path) -> None:
    create_tables(each_database, 20)
    source = source_of(each_database)
    config = {**slot_of(each_database), "heartbeat_seconds": 1}
    connector = {**own_process(each_database), "silence": "4s"}
    capture = Capture(tmp_path, each_database, config, connector)
    with capture.start() as running:
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        hanging = capture.connector_of(running)
        assert hanging is not None
        os.kill(hanging, signal.SIGSTOP)
        wait_until(lambda: (status(capture)["error"] or {}).get("code") == "TM-RUN-019", 30, "the hang is told")
        with contextlib.closing(source.connect(autocommit=True)) as connection:
            connection.cursor().execute("DELETE FROM accounts")
        wait_until(lambda: is_caught_up(capture) and capture.connector_of(running) != hanging, 60, "another goes on")
        wait_until(lambda: capture.differences() == [], 60, "nothing is lost")
