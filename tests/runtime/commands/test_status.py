"""``tidemark status``: it says how a capture is, whatever became of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder, error_line
from tidemark.protocol.errors import SparkError
from tidemark.runtime.progress.liveness import liveness
from tidemark.runtime.progress.processes import known, uptime
from tidemark.runtime.progress.state_folder import STATUS
from tidemark.spark_sink.pipeline.memory import Memory, SetAside, TableMemory, memory_place
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.deadline import wait_until

ROWS = {"rows": {"first": 1, "count": 3}}
WELL = {
    "stderr": json.dumps(
        {
            "level": "info",
            "message": "following the log",
            "eventType": "connectorStatus",
            "fields": {"tables": {"public.t": {"state": "done", "done": True}}, "lag_seconds": 0, "caught_up": True},
        }
    )
}
SESSION = [OPENED, ROWS, {"checkpoint": {"cursor": 3}}, {"await": 1}, WELL]


def report(folder: CaptureFolder) -> dict[str, Any]:
    done = folder.run("status", "capture.yaml", "--json")
    said: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == said["exit_status"], done.stderr
    return said


def said(folder: CaptureFolder) -> str:
    return folder.run("status", "capture.yaml").stdout


@pytest.mark.parametrize(
    ("number", "state"), [(signal.SIGTERM, "stopped"), (signal.SIGKILL, "killed")], ids=["stopped", "killed"]
)
def test_a_capture_that_runs_and_one_that_does_not(folder: CaptureFolder, number: signal.Signals, state: str) -> None:
    folder.script([*SESSION, {"sleep": 1}])
    with folder.start("capture", "capture.yaml") as capture:
        wait_until(lambda: folder.is_begun and report(folder)["caught_up"], 30, "it is caught up")
        told = report(folder)
        assert (told["state"], told["running"], told["pid"], told["lag_seconds"]) == ("running", True, capture.pid, 0)
        assert "0 s, caught up" in said(folder)
        assert told["exit_status"] == 0
        capture.send_signal(number)
    told = report(folder)
    assert (told["state"], told["running"], told["lag_seconds"], told["caught_up"]) == (state, False, None, None)
    assert told["exit_status"] == 3
    assert datetime.fromisoformat(told["since"]) > datetime.now(UTC) - timedelta(minutes=1)
    assert "NOT RUNNING" in said(folder)


def test_a_capture_that_failed(folder: CaptureFolder) -> None:
    line = error_line("slot is gone", code="TM-PG-012", policy="manual", remedy="make a slot")
    folder.script([*SESSION, line, {"exit": 1}])
    assert folder.run("capture", "capture.yaml").returncode == 1
    told = report(folder)
    assert (told["state"], told["error"]["code"], told["error"]["remedy"]) == ("failed", "TM-PG-012", "make a slot")
    assert (told["exit_status"], told["needs"]) == (1, ["the capture failed: TM-PG-012"])
    assert "NOT RUNNING: failed" in said(folder)
    assert "slot is gone\n         what to do: make a slot" in said(folder)


def test_the_last_commit_with_data_is_not_the_last_commit(folder: CaptureFolder) -> None:
    folder.script([*SESSION, {"checkpoint": {"cursor": 4}}, {"await": 2}], [OPENED])
    for _ in range(3):
        assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
    told = report(folder)
    assert told["data"]["commit"] == 1
    assert told["commit"] > 1
    assert told["data"]["time"] == folder.log.commit(1).time.isoformat()
    assert (told["state"], told["exit_status"]) == ("caught up", 0)


def test_an_error_of_before_the_last_progress_has_passed(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"signal": 9}], [*SESSION, {"sleep": 1}])
    with folder.start("capture", "capture.yaml") as capture:
        wait_until(lambda: folder.is_begun and (report(folder)["error"] or {}).get("passed"), 30, "it has passed")
        assert report(folder)["error"]["code"] == "TM-RUN-003"
        assert ", now resolved:" in said(folder)
        capture.send_signal(signal.SIGTERM)


def test_one_that_cannot_take_the_log_leaves_the_status_of_the_other(folder: CaptureFolder) -> None:
    folder.script([*SESSION, {"sleep": 1}])
    with folder.start("capture", "capture.yaml") as capture:
        wait_until(lambda: folder.is_begun and report(folder)["running"], 30, "it runs")
        assert folder.run("capture", "capture.yaml").returncode == 1
        told = report(folder)
        assert (told["running"], told["pid"], told["error"]) == (True, capture.pid, None)
        copy = folder.path / "copy"
        copy.mkdir()
        for name in (folder.state_path.name, folder.log_path.name):
            shutil.copytree(folder.path / name, copy / name)
        shutil.copy(folder.file, copy)
        (other := folder.path / "other.yaml").write_text(folder.file.read_text())
        for place in ("copy/capture.yaml", "copy/shop.log"):
            of_copy = folder.run("status", place)
            assert "NOT RUNNING: no capture has run here yet" in of_copy.stdout and of_copy.returncode == 3, place
        taken = folder.run("status", other.name)
        assert taken.returncode == 1 and f"TM-LOG-006: process {capture.pid} writes {folder.log_path}" in taken.stdout
        assert f"written last by another capture, whose state is in {folder.state_path}" in taken.stdout
        capture.send_signal(signal.SIGTERM)


def test_tables_that_are_set_aside(folder: CaptureFolder) -> None:
    line = json.loads(WELL["stderr"])
    away = {"state": "set_aside", "error": "TM-PG-007: there is no table public.u", "remedy": "Create it."}
    line["fields"]["tables"]["public.u"] = away
    folder.script([*SESSION, {"stderr": json.dumps(line)}])
    folder.write_file(spark={"warehouse": "lake"})
    assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
    assert report(folder)["spark_set_aside"] == {}
    broken = SetAside.of(SparkError("TM-SPK-004", "columns do not fit"))
    path = memory_place(StorePlace.of(folder.path / "lake"), folder.log.header.log_id)
    Memory(tables={"public/t current": TableMemory(set_aside=broken)}).save(path)
    told = report(folder)
    assert told["set_aside"] == {"public.u": "TM-PG-007: there is no table public.u"}
    assert told["spark_set_aside"] == {"public.t current": "TM-SPK-004: columns do not fit"}
    assert told["exit_status"] == 1
    for words in (
        "what to do: Create it.",
        "there is no table",
        "materialize: public.t current: TM-SPK-004: columns do not fit",
    ):
        assert words in " ".join(said(folder).split())


def test_how_far_spark_is_behind(folder: CaptureFolder) -> None:
    folder.script(SESSION)
    folder.write_file(spark={"warehouse": "lake"})
    assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
    path = memory_place(StorePlace.of(folder.path / "lake"), folder.log.header.log_id)
    known = {"public/t current": TableMemory(complete_to=3), "public/t history": TableMemory(complete_to=2)}
    Memory(tables=known).save(path)
    told = report(folder)["spark"]
    assert told["public.t current"]["behind_seconds"] == 0
    age = (datetime.now(UTC) - folder.log.commit(1).time).total_seconds()
    assert 0 < told["public.t history"]["behind_seconds"] <= age
    words = " ".join(said(folder).split())
    assert "spark public.t current: has all of the log" in words
    assert "spark public.t history: " in words and " behind the log" in words


def _reread(**more: Any) -> dict[str, Any]:
    cause = {
        "name": "column_type",
        "columns": ["total"],
        "at": "0/1A",
        "time": "2026-01-01T00:00:00Z",
        "avoid": "Wait.",
    }
    return {"causes": [cause], **more}


def test_tables_that_are_read_again(folder: CaptureFolder) -> None:
    """Which change, how large, how long, and how to avoid it; one that has ended long ago is for programs only."""
    line = json.loads(WELL["stderr"])
    size = {"rows_done": 1000, "rows_estimated": 5000, "bytes_estimated": 3_000_000}
    begun, ended = "2026-01-01T00:00:00Z", "2026-01-01T00:02:05Z"
    line["fields"]["tables"] = {
        "public.a": {**size, "seconds_left": 61, "reread": _reread(begun=begun, bytes_done=2000)},
        "public.b": {**size, "reread": _reread(begun=begun, ended=ended)},
        "public.c": {**size, "reread": _reread(begun=at(100, datetime.now(UTC)), ended=at(70, datetime.now(UTC)))},
    }
    folder.script([*SESSION, {"stderr": json.dumps(line)}])
    assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
    told = report(folder)["rereads"]
    assert {name: (one["state"], round(one["seconds"])) for name, one in told.items()} == {
        "public.a": ("running", 61),
        "public.b": ("done", 125),
        "public.c": ("done", 30),
    }
    assert told["public.a"]["causes"][0]["columns"] == ["total"] and told["public.a"]["bytes_estimated"] == 3_000_000
    words = " ".join(said(folder).split())
    for sentence in (
        "reread public.a, running: column_type (total) at 0/1A, ",
        "1,000 of about 5,000 rows, 3.0 MB at the source; 2.0 kB of documents so far; 1 min 1 s left",
        "reread public.c, done: column_type (total)",
        "1,000 rows, 0 B of documents, in 30 s",
        "next time: Wait.",
    ):
        assert sentence in words
    assert "reread public.b" not in words


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def pid() -> int:
    """Of a process that is over."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def at(seconds: float, now: datetime = NOW) -> str:
    return (now - timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize(
    ("status", "state", "running"),
    [
        ({"time": at(1), "started": at(99)}, "running", True),
        ({"time": at(1), "source_away_since": at(74)}, "waiting for the source", True),
        ({"time": at(1), "status_time": at(85)}, "connector silent", True),
        ({"time": at(1), "status_time": at(9)}, "running", True),
        ({"time": at(1), "retry": {"code": "TM-LOG-008", "since": at(3)}}, "waiting for the log", True),
        ({"time": at(1), "retry": {"code": "TM-RUN-003", "since": at(3)}}, "connector failed", True),
        ({"time": at(1), "pid": 0}, "killed", False),
        ({"time": at(60), "host": "another"}, "unknown", False),
        ({"time": at(1), "host": "another", "pid": 0}, "running", True),
        ({"time": at(1), "ended": at(92 * 60), "outcome": "stopped"}, "stopped", False),
    ],
)  # fmt: skip
def test_liveness(status: dict[str, Any], state: str, running: bool) -> None:
    found = liveness({"pid": os.getpid(), "host": socket.gethostname(), **status}, NOW)
    assert (found.state, found.running) == (state, running)


def test_a_process_that_is_over_does_not_run(pid: int) -> None:
    assert liveness({"pid": pid, "host": socket.gethostname(), "time": at(1)}, NOW).state == "killed"
    assert liveness(None, NOW).state == "unknown"


def test_a_process_that_exists_but_says_nothing_does_not_answer() -> None:
    now, there = datetime.now(UTC), {"pid": os.getpid(), "host": socket.gethostname()}
    began = known(os.getpid())
    assert began is not None and began.began is not None
    silent = {**there, "time": began.began.isoformat()}
    assert liveness(silent, now + timedelta(minutes=1)).state == "not answering"


@pytest.mark.parametrize("set_by", [-3600, 3600])
def test_a_clock_that_is_set_makes_no_process_silent_or_alive(set_by: float) -> None:
    now, there = datetime.now(UTC), {"pid": os.getpid(), "host": socket.gethostname()}
    there |= {"status_time": at(2 - set_by, now), "time": at(1 - set_by, now)}
    assert liveness({**there, "uptime": uptime() - 1}, now).state == "running"
    hangs = liveness({**there, "uptime": uptime() - 60}, now)
    assert hangs.state == ("not answering" if set_by > 0 else "killed"), "whichever: it says nothing"


def test_a_process_that_took_the_id_of_another_is_not_it() -> None:
    status = {"pid": os.getpid(), "host": socket.gethostname(), "time": at(60)}
    assert liveness(status, NOW).state == "killed"


def test_a_process_that_is_halted_or_not_noted_as_ended() -> None:
    now = datetime.now(UTC)
    with subprocess.Popen(["sleep", "60"]) as process:
        status = {"pid": process.pid, "host": socket.gethostname(), "time": now.isoformat()}
        assert liveness(status, now).state == "running"
        process.send_signal(signal.SIGSTOP)
        found = wait_until(lambda: one if (one := liveness(status, now)).halted else None, 10, "it is halted")
        assert (found.state, found.running) == ("not answering", False)
        assert f"kill -CONT {process.pid} continues it" in found.in_words(now)
        process.kill()
        wait_until(lambda: liveness(status, now).state == "killed", 10, "it has ended, though nobody has noted it")


def test_a_status_that_is_no_status_is_none(folder: CaptureFolder) -> None:
    folder.script(SESSION)
    assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
    for content in (b"", b"{", orjson.dumps([1]), orjson.dumps({"pid": "x", "time": 3, "ended": "never"})):
        (folder.state_path / STATUS).write_bytes(content)
        assert "NOT RUNNING" in said(folder)
