"""``tidemark capture FOLDER``: a process for each file, and none of them touches the others."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder, error_line, is_running
from tests.warm_process import run_to_its_end
from tidemark.demo.processes import TIDEMARK
from tidemark.runtime.many_captures import one_capture
from tidemark.runtime.many_captures.one_capture import OneCapture
from tidemark.testing.deadline import wait_until

SECONDS = 60
ROW = {"rows": {"first": 1, "count": 1}}
STAYS = [OPENED, ROW, {"checkpoint": {"cursor": 1}}, {"await_eof": 0}]
ENDS = [OPENED, ROW, {"checkpoint": {"cursor": 1}}]
FAILS = [error_line("the slot is gone", code="TM-PG-001", policy="manual"), {"exit": 1}]


class Folder:
    """A folder with capture files, each of a scripted connector."""

    def __init__(self, path: Path) -> None:
        self.path = path / "captures"
        self.path.mkdir()
        self._scripts = path

    def add(self, name: str, *sessions: Any) -> CaptureFolder:
        (self._scripts / name).mkdir()
        capture = CaptureFolder(self._scripts / name)
        capture.script(*sessions)
        capture.write_file(capture=name, log=str(capture.log_path))
        capture.file = Path(shutil.move(capture.file, self.path / f"{name}.yaml"))
        return capture

    @contextmanager
    def running(self, output: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """``tidemark capture`` on the folder; interrupted at the end. Its lines are in ``lines``, or in ``output``."""
        with (
            (output or self._scripts / "stderr").open("wb") as file,
            subprocess.Popen([*TIDEMARK, "capture", str(self.path)], stdout=file, stderr=file) as process,
        ):
            try:
                yield process
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(SECONDS)

    def lines(self, name: str) -> list[dict[str, Any]]:
        said = map(json.loads, (self._scripts / "stderr").read_text().splitlines())
        return [line for line in said if line["file"] == f"{name}.yaml"]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def runs(capture: CaptureFolder) -> bool:
    pid = capture.connector_pid()
    return capture.is_begun and pid is not None and is_running(pid)


def test_one_that_fails_does_not_touch_the_others(folder: Folder) -> None:
    good, bad = folder.add("good", STAYS), folder.add("bad", FAILS, STAYS)
    (folder.path / "broken.yaml").write_text("capture: [")
    (folder.path / os.fsdecode(b"w\xff.yaml")).write_text("capture: w")
    with folder.running() as process:
        wait_until(lambda: runs(good), SECONDS, "one runs")
        wait_until(lambda: any("is started again" in line["message"] for line in folder.lines("bad")), SECONDS, "told")
        assert {"TM-PG-001"} <= {line.get("fields", {}).get("code") for line in folder.lines("bad")}
        wait_until(lambda: any("in 300 s" in line["message"] for line in folder.lines("broken")), SECONDS, "told")
        status = run_to_its_end([*TIDEMARK, "status", str(folder.path)])
        assert status.returncode == 1
        assert "capture  good" in status.stdout and "TM-CFG-001" in status.stderr
        assert "w\\udcff.yaml' is not UTF-8" in status.stderr
        wait_until(lambda: any("in 300 s" in line["message"] for line in folder.lines("w\\udcff")), SECONDS, "told")
        # An edit says that a person has acted.
        os.utime(bad.file)
        wait_until(lambda: runs(bad), SECONDS, "it is started again")
        added = folder.add("added", STAYS)
        wait_until(lambda: runs(added), SECONDS, "a file that is added is captured")
        good.file.unlink()
        wait_until(lambda: not runs(good), SECONDS, "one whose file is removed ends")
        assert runs(bad) and runs(added)
    assert process.returncode == 130
    assert not runs(bad) and not runs(added)


def test_one_is_started_again_though_the_disk_of_stderr_is_full(folder: Folder) -> None:
    capture = folder.add("bad", FAILS, STAYS)
    with folder.running(Path("/dev/full")):
        wait_until(lambda: capture.connector_pid() is not None, SECONDS, "it has begun")
        os.utime(capture.file)
        wait_until(lambda: runs(capture), SECONDS, "it is started again")


def test_captures_end_with_the_command_however_that_ends(folder: Folder) -> None:
    captures = [folder.add(name, STAYS) for name in ("one", "two")]
    with folder.running() as process:
        wait_until(lambda: all(map(runs, captures)), SECONDS, "they run")
        process.kill()
        wait_until(lambda: not any(map(runs, captures)), SECONDS, "they end")


@pytest.mark.parametrize(("others", "status"), [([ENDS], 0), ([FAILS], 1)])
def test_until_all_have_caught_up(folder: Folder, others: Any, status: int) -> None:
    folder.add("first", ENDS)
    folder.add("second", *others)
    done = run_to_its_end([*TIDEMARK, "capture", str(folder.path), "--until-caught-up"])
    assert done.returncode == status, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert {result["file"] for result in results} >= {"first.yaml"}
    assert all(result["events"] == 1 for result in results)


def test_a_folder_without_a_capture_file(tmp_path: Path) -> None:
    done = run_to_its_end([*TIDEMARK, "capture", str(tmp_path)])
    assert done.returncode == 2 and "TM-CFG-013" in done.stderr


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (sys.executable, "the capture has ended with status 3; it is started again in 0 s"),
        ("/no/such/program", "the capture cannot be started: No such file or directory"),
    ],
)
def test_a_capture_is_started_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, told: str
) -> None:
    monkeypatch.setattr(one_capture, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(one_capture, "LOOK_SECONDS", 0.001)
    alive, own = os.pipe()
    said: list[str] = []
    (file := tmp_path / "capture.yaml").write_text("x")
    capture = OneCapture(file, [], alive, lambda line: said.append(str(line["message"])), again=True)
    capture._command = [program, "-c", "raise SystemExit(3)"]
    capture.start()
    wait_until(lambda: len(said) > 3, SECONDS, "it is started again and again")
    capture.interrupt()
    capture.join(SECONDS)
    assert not capture.is_alive()
    assert said[0] == told
    os.close(own)
    os.close(alive)
