"""Runs all captures of a folder, a process for each file. None of them touches the others."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from tidemark.protocol.errors import UsageError
from tidemark.protocol.text.visible import visible_json
from tidemark.runtime.many_captures.one_capture import OneCapture
from tidemark.runtime.progress.displays.lossy_stderr import LossyStderr
from tidemark.runtime.sessions.interruption import Interruption

LOOK_SECONDS = 1.0
"""How often it is looked which files there are."""

LEAVE_SECONDS = 30.0
"""How long captures may take to end."""


def capture_files(folder: Path) -> list[Path]:
    """The capture files of a folder: ``*.yaml`` and ``*.yml``, but for hidden ones."""
    found = [path for path in folder.iterdir() if path.suffix in (".yaml", ".yml") and path.is_file()]
    return sorted(path for path in found if not path.name.startswith("."))


class CapturesOfFolder:
    """The captures of one folder.

    Args:
        folder: With the files.
        options: Of each ``tidemark capture``.
        again: Captures that end are started again, and files that are added or removed are noticed. Otherwise each
            file that is there runs once.
    """

    def __init__(self, folder: Path, options: Sequence[str], *, again: bool) -> None:
        self._folder = folder
        self._options = options
        self._again = again
        self._running: dict[Path, OneCapture] = {}
        self._leaving: list[OneCapture] = []
        self._output = threading.Lock()
        self._stderr = LossyStderr(sys.stderr)

    def run(self) -> int:
        """Runs them. Returns an exit status: 0 all have caught up, 1 a person must act for one, 3 one failed for now.

        Raises:
            UsageError: ``TM-CFG-013`` there is no capture file.
            KeyboardInterrupt: A signal came; all captures have ended.
        """
        files = capture_files(self._folder)
        if not files:
            raise UsageError("TM-CFG-013", f"{self._folder} has no capture file")
        alive, own = os.pipe()
        try:
            with Interruption() as interruption:
                self._start(files, alive)
                while self._again:
                    interruption.sleep(LOOK_SECONDS)
                    with suppress(OSError):  # A folder that is away says nothing of its captures: they go on.
                        self._follow(capture_files(self._folder), alive)
                for capture in self._running.values():
                    while capture.is_alive():
                        capture.join(LOOK_SECONDS)
        finally:
            self._end()
            os.close(own)
            os.close(alive)
        statuses = {capture.status for capture in self._running.values()}
        return 0 if statuses == {0} else 3 if statuses <= {0, 3} else 1

    def _start(self, files: Sequence[Path], alive: int) -> None:
        for file in files:
            self._running[file] = OneCapture(file, self._options, alive, self._tell, again=self._again)
            self._running[file].start()

    def _follow(self, files: Sequence[Path], alive: int) -> None:
        """Starts captures of files that were added, and ends those of files that were removed."""
        self._leaving = [capture for capture in self._leaving if capture.is_alive()]
        for file in self._running.keys() - set(files):
            capture = self._running.pop(file)
            capture.interrupt()
            self._leaving.append(capture)
        self._start([file for file in files if file not in self._running], alive)

    def _end(self) -> None:
        captures = [*self._running.values(), *self._leaving]
        for capture in captures:
            capture.interrupt()
        deadline = time.monotonic() + LEAVE_SECONDS
        for capture in captures:
            capture.join(max(0.0, deadline - time.monotonic()))
        for capture in captures:
            if capture.is_alive():
                capture.kill()
                capture.join()

    def _tell(self, said: dict[str, Any]) -> None:
        """Log lines go to stderr, and results to stdout."""
        line = visible_json(orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE).decode())
        with self._output:
            if "level" in said:
                self._stderr.write(line)
            else:
                sys.stdout.write(line)
                sys.stdout.flush()
