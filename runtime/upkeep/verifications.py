"""Has the tables of a running capture verified now and then, by the command that a person would give.

It is a process of its own: the comparison takes processor time and memory, and the capture waits for none of it.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from tidemark.protocol.capture_file.verify_entry import VerifyEntry
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.progress.state_folder import StateFolder

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How often it is looked whether a verification is due."""

AGAIN_SECONDS = 600.0
"""How long after one that could not end, or could not compare all tables, the next one begins."""

_FILE = "verification.json"

Tell = Callable[..., None]
"""Takes a level, a message for people, and fields."""


class Schedule(threading.Thread):
    """Works while it is entered. The time of the last verification is in the capture's state folder.

    Args:
        file: The capture file.
        entry: When, and how gently.
        folder: Of the capture.
        is_ready: Whether the capture runs and all backfills are done.
        tell: Tells of rows that differ.
    """

    def __init__(
        self, file: Path, entry: VerifyEntry, folder: StateFolder, is_ready: Callable[[], bool], tell: Tell
    ) -> None:
        super().__init__(name="verify-schedule", daemon=True)
        self._command = [sys.executable, "-m", "tidemark.runtime", "verify", str(file), "--json"]
        self._command += ["--share", f"{entry.share:.6%}"]
        self._every = entry.every
        self._folder = folder
        self._is_ready = is_ready
        self._tell = tell
        self._over = threading.Event()
        self._not_before = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()  # Of the process: none is started once it is over.

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._over.set()
            if self._process is not None:
                self._process.terminate()  # The next run continues the verification.
        self.join()

    def run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            if self.is_due() and self._is_ready():
                self._verify()

    def is_due(self) -> bool:
        """Whether a verification is to begin now."""
        return time.monotonic() >= self._not_before and time.time() - self._last() >= self._every

    def _verify(self) -> None:
        with self._lock:
            if self._over.is_set():
                return
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        said, complaint = self._process.communicate()
        if self._over.is_set():
            return
        status = self._process.returncode
        if status == 1 and said:
            self._tell_differences(json.loads(said))
        if status == 0 or (status == 1 and said):
            self._remember()
            return
        self._not_before = time.monotonic() + AGAIN_SECONDS
        logger.warning("not all tables could be verified; that is tried again in 10 min%s", _reason(complaint))

    def _tell_differences(self, found: dict[str, Any]) -> None:
        for name, one in found["tables"].items():
            for where, part in (("the log", one), ("Spark", one["spark"])):
                if part is not None and (rows := sum(part["different"].values())):
                    what, differ = ("1 row", "differs") if rows == 1 else (f"{rows:,} rows", "differ")
                    text = f"{what} of {name} in {where} {differ} from the source"
                    self._tell("error", text, code="TM-RUN-030")

    def _last(self) -> float:
        """When the last one ended, in seconds since 1970; 0 before the first."""
        path = self._folder.path
        if path is None or not (path / _FILE).exists():
            return 0.0
        try:
            return datetime.fromisoformat(json.loads((path / _FILE).read_bytes())["ended"]).timestamp()
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s cannot be read, so tables are verified now (%s)", _FILE, error)
            return 0.0

    def _remember(self) -> None:
        if (path := self._folder.path) is not None:
            with writing(str(path / _FILE)):
                DirectoryStore(path).replace(_FILE, json.dumps({"ended": datetime.now(UTC).isoformat()}).encode())


def _reason(complaint: bytes) -> str:
    """What the command said last on stderr, where each line is JSON without a terminal."""
    last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]
    try:
        said = json.loads(last)
        return f": {said['fields']['code']}: {said['message']}"
    except (ValueError, KeyError, TypeError):
        return f": {last}" if last else ""
