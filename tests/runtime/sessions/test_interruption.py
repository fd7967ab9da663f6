"""Ctrl-C, SIGTERM and SIGKILL: nothing is left running, nothing is half committed."""

from __future__ import annotations

import signal

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder, is_running
from tidemark.runtime.connector.interface import GRACE_SECONDS
from tidemark.testing.deadline import wait_until

WAITING = [
    OPENED,
    {"rows": {"first": 1, "count": 5}},
    {"checkpoint": {"cursor": 5}},
    {"await": 1},
    {"rows": {"first": 6, "count": 5}},
    {"child": 1},
    {"sleep": 1},
]


def asleep(folder: CaptureFolder) -> int:
    """Waits until the connector sleeps; its process."""
    wait_until((folder.path / "asleep").exists, 30, "the connector asleep")
    pid = folder.connector_pid()
    assert pid is not None
    return pid


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_connector_and_commits_nothing_partial(folder: CaptureFolder, number: int) -> None:
    folder.script(WAITING)
    with folder.start("capture", "capture.yaml") as runtime:
        pid = asleep(folder)
        runtime.send_signal(number)
        assert runtime.wait(30) == 130
    child = int((folder.path / "child.pid").read_text())
    assert not is_running(pid)
    wait_until(lambda: not is_running(child), 60, "the end of what the connector started")
    assert folder.ids() == [1, 2, 3, 4, 5]
    assert folder.log.summary().state == {"cursor": 5}
    assert "Traceback" not in folder.stderr


def test_a_second_signal_does_not_wait_for_a_stubborn_connector(folder: CaptureFolder) -> None:
    folder.script([*WAITING[:-1], {"sleep": "stubborn"}])
    with folder.start("capture", "capture.yaml") as runtime:
        pid = asleep(folder)
        runtime.send_signal(signal.SIGINT)
        wait_until((folder.path / "terminated").exists, 60, "the runtime waiting for its connector")
        runtime.send_signal(signal.SIGINT)
        assert runtime.wait(GRACE_SECONDS - 0.5) == 130  # less than the grace that a connector has
    assert not is_running(pid)
    assert "Traceback" not in folder.stderr


@pytest.mark.heavy
def test_a_connector_that_hangs_does_not_keep_a_command_from_ending_in_time(folder: CaptureFolder) -> None:
    """Those who run containers give a command ten seconds."""
    folder.script([*WAITING[:-1], {"sleep": "stubborn"}])
    with folder.start("capture", "capture.yaml") as runtime:
        pid = asleep(folder)
        (folder.path / "asleep").unlink()
        # An edit: another connector hangs over its question, besides the one that captures.
        folder.script([OPENED], discover=[{"sleep": "stubborn"}])
        folder.write_file(commit={"interval": "60ms"})
        wait_until((folder.path / "asleep").exists, 30, "the second one asleep")
        runtime.send_signal(signal.SIGTERM)
        assert runtime.wait(10) == 130
    other = int(folder.requests("discover")[-1]["pid"])
    wait_until(lambda: not is_running(pid) and not is_running(other), 60, "the end of both")
    assert "Traceback" not in folder.stderr


def test_a_signal_while_the_runtime_waits_before_another_attempt(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"signal": 9}])
    with folder.start("capture", "capture.yaml") as runtime:
        wait_until(lambda: "opening it again in" in folder.stderr, 30, "a restart")
        runtime.send_signal(signal.SIGTERM)
        assert runtime.wait(30) == 130


def test_a_signal_during_the_calls_before_the_capture(folder: CaptureFolder) -> None:
    folder.script([OPENED], discover=[{"sleep": 1}])
    for command in ("capture", "check"):
        (folder.path / "asleep").unlink(missing_ok=True)
        with folder.start(command, "capture.yaml") as runtime:
            wait_until((folder.path / "asleep").exists, 30, "the connector asleep")
            pid = int(folder.requests("discover")[-1]["pid"])
            runtime.send_signal(signal.SIGINT)
            assert runtime.wait(30) == 130
        assert not is_running(pid)


def test_the_connector_does_not_outlive_a_killed_runtime(folder: CaptureFolder) -> None:
    folder.script([*WAITING[:-2], {"sleep": "stubborn"}])
    with folder.start("capture", "capture.yaml") as runtime:
        pid = asleep(folder)
        runtime.kill()
    wait_until(lambda: not is_running(pid), 60, "the end of the connector")
