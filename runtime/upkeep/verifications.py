"""Has the tables of a running capture verified now and then, by the command that a person would give.

It is a process of its own: the comparison takes processor time and memory, and the capture waits for none of it.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from tidemark.protocol.capture_file.verify_entry import VerifyEntry
from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.verification_record import FILE, Lacking, VerificationRecord

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How often it is looked whether a verification is due."""

Tell = Callable[..., None]
"""Takes a level, a message for people, and fields."""


class Schedule(threading.Thread):
    """Works while it is entered. What is known of the last verification is in the capture's state folder.

    Where tables could not be compared, these alone are verified again, after ever longer pauses. If they are only
    lacking in Spark, their source is not read before Spark's tables can be.

    Args:
        file: The capture file.
        entry: When, and how gently.
        folder: Of the capture.
        is_ready: Whether the capture runs and all backfills are done.
        tell: Tells of rows that differ, and of a record that cannot be written.
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
        self._process: subprocess.Popen[bytes] | None = None
        self._unsaved: VerificationRecord | None = None
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
            record, now = self.record(), datetime.now(UTC)
            all_tables = record.due(now, self._every)
            if (all_tables or record.retry_due(now, self._every)) and self._is_ready():
                self._verify(record, all_tables=all_tables)

    def record(self) -> VerificationRecord:
        """What is known of the last verification, also where it could not be written."""
        return self._unsaved or VerificationRecord.of(self._folder)

    def _verify(self, record: VerificationRecord, *, all_tables: bool) -> None:
        command = [*self._command, *([] if all_tables else _of_lacking(record.lacking))]
        with self._lock:
            if self._over.is_set():
                return
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
            except OSError as error:  # Too little memory, too many processes or files: the next one may begin.
                self._note_failure(record, f"tidemark verify cannot be started: {error.strerror}")
                return
        said, complaint = self._process.communicate()
        if self._over.is_set():
            return
        status, now = self._process.returncode, datetime.now(UTC)
        if not said or status not in (0, 1, 3):
            why = _reason(complaint) or f"tidemark verify ended with {status}"
            # A table that is lacking may not be captured any more.
            self._note_failure(record, why, forget=not all_tables and status == 2)
            return
        found = json.loads(said)
        self._tell_differences(found)
        lacking = _lacking(found)
        self._remember(record.after(now, self._every, lacking, all_tables=all_tables))
        for name, one in lacking.items():
            logger.warning("%s could not be verified; that is tried again: %s", name, one.why)

    def _note_failure(self, record: VerificationRecord, why: str, *, forget: bool = False) -> None:
        self._remember(record.after_failure(datetime.now(UTC), self._every, why, forget=forget))
        logger.warning("no table could be verified; that is tried again: %s", why)

    def _tell_differences(self, found: dict[str, Any]) -> None:
        for name, one in found["tables"].items():
            for where, part in (("the log", one), ("Spark", one["spark"])):
                if part is not None and (rows := sum(part["different"].values())):
                    what, differ = ("1 row", "differs") if rows == 1 else (f"{rows:,} rows", "differ")
                    text = f"{what} of {name} in {where} {differ} from the source"
                    self._tell("error", text, code="TM-RUN-030")

    def _remember(self, record: VerificationRecord) -> None:
        try:
            record.save(self._folder)
            self._unsaved = None
        except ChangeLogError as error:
            self._unsaved = record
            what = f"{FILE} cannot be written, so tables may be verified once more after a restart: {error.message}"
            self._tell("warning", what, code=error.code, remedy=error.remedy)


def _lacking(found: dict[str, Any]) -> dict[str, Lacking]:
    """The tables that were not compared and can be, at another time."""
    lacking: dict[str, Lacking] = {}
    for name, one in found["tables"].items():
        for part, in_spark in ((one["spark"], True), (one, False)):
            if part is not None and part["why"] and part["covered"]:
                lacking.setdefault(name, Lacking(why=part["why"], in_spark=in_spark))
    return lacking


def _of_lacking(lacking: dict[str, Lacking]) -> list[str]:
    """The command's options for these tables."""
    first = ["--spark-first"] if all(one.in_spark for one in lacking.values()) else []
    return [*first, *(part for name in lacking for part in ("--table", name))]


def _reason(complaint: bytes) -> str:
    """What the command said last on stderr, where each line is JSON without a terminal."""
    last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]
    try:
        said = json.loads(last)
        return f"{said['fields']['code']}: {said['message']}"
    except (ValueError, KeyError, TypeError):
        return last
