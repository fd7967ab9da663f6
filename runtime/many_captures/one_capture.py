"""Keeps ``tidemark capture`` running for one file, whatever becomes of the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from tidemark.protocol.text.visible import visible
from tidemark.runtime.many_captures.parent import VARIABLE
from tidemark.runtime.progress.failures import FAILED_FOR_NOW
from tidemark.runtime.steering.capture_file_watch import stamp

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0

LASTED_SECONDS = 60.0
"""A capture that ran so long had begun: the next pause is short again."""

PERSON_SECONDS = 300.0
"""The pause where a person must act. It ends at once when the file is edited."""

LOOK_SECONDS = 0.5

Tell = Callable[[dict[str, Any]], None]


class OneCapture(threading.Thread):
    """Starts the command, passes on what it says, and starts it again when it ends.

    Args:
        file: The capture file.
        options: Of the command, besides.
        alive: The open file that ends with this process.
        tell: Takes each JSON object that the command writes.
        again: It is started again when it ends; otherwise it runs once.

    Attributes:
        status: The last exit status; None before the first.
    """

    def __init__(self, file: Path, options: Sequence[str], alive: int, tell: Tell, *, again: bool) -> None:
        super().__init__(name=f"capture-{file.name}")
        self.status: int | None = None
        self._file = file
        self._command = [sys.executable, "-m", "tidemark.runtime", "capture", str(file), "--json", *options]
        self._alive = alive
        self._tell = tell
        self._again = again
        self._over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()  # Of the process: it is not started once it is over.

    def run(self) -> None:
        failures = 0
        while not self._over.is_set():
            begun, edited = time.monotonic(), stamp(self._file)
            try:
                self._run_once()
            except OSError as error:  # Too little memory, too many processes or files: the next one may begin.
                self.status = FAILED_FOR_NOW
                self._say(f"the capture cannot be started: {error.strerror}")
            if self._over.is_set() or not self._again:
                return
            failures = 0 if time.monotonic() - begun >= LASTED_SECONDS else failures + 1
            pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (failures - 1))
            if self.status in (1, 2):
                pause = PERSON_SECONDS
            self._say(f"the capture has ended with status {self.status}; it is started again in {pause:.0f} s")
            self._wait(pause, edited)

    def interrupt(self) -> None:
        """Has the command end, and does not start it again."""
        with self._lock:
            self._over.set()
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends a command that does not end."""
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def _run_once(self) -> None:
        with self._lock:
            if self._over.is_set():
                return
            self._process = subprocess.Popen(
                self._command,
                env={**os.environ, VARIABLE: str(self._alive)},
                pass_fds=(self._alive,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        assert self._process.stdout is not None, "it is a pipe"
        with self._process.stdout as lines:
            for line in lines:
                self._tell(self._labelled(line))
        self.status = self._process.wait()

    def _labelled(self, line: bytes) -> dict[str, Any]:
        try:
            said = orjson.loads(line)
        except orjson.JSONDecodeError:
            said = None
        if not isinstance(said, dict):
            said = {"level": "warning", "message": line.decode("utf-8", "replace").rstrip()}
        return {"file": visible(self._file.name), **said}

    def _say(self, message: str) -> None:
        self._tell({"file": visible(self._file.name), "level": "warning", "message": message})

    def _wait(self, seconds: float, edited: object) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._over.wait(LOOK_SECONDS):
            if stamp(self._file) != edited:
                return
