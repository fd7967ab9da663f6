"""All that is known of a capture, as ``tidemark status --json`` prints it."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tidemark.protocol.capture_file import CaptureFile, read_capture_file
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError, TidemarkError, UsageError
from tidemark.protocol.messages import JsonObject
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.protocol.store.opening import opened
from tidemark.protocol.verification.files import FOLDER, Verified
from tidemark.runtime.changelog.claim import foreign
from tidemark.runtime.progress.liveness import Liveness, liveness
from tidemark.runtime.progress.log_consumers import kept_and_read
from tidemark.runtime.progress.rereads import rereads
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.progress.verification_record import VerificationRecord
from tidemark.runtime.sessions.known_log import KnownLog
from tidemark.runtime.status.retained import Retained, ask_source, retained_now
from tidemark.runtime.status.spark_tables import spark_tables
from tidemark.runtime.status.verdict import exit_status, needs
from tidemark.runtime.steering.waiting_commands import WaitingCommands
from tidemark.runtime.verification.results import as_json, results_of

NOTHING_OF_LOG: dict[str, Any] = {
    "commit": -1,
    "committed": None,
    "age_seconds": None,
    "data": None,
    "events": 0,
    "first_offset": 0,
    "consumers": {},
    "consumers_unknown": "",
    "spark_set_aside": {},
    "spark": {},
    "verified": {},
    "verification": None,
    "tables": {},
    "commands": [],
    "bad_commands": [],
}
"""What ``of_log`` says of a log of which nothing is known yet."""

HALTED = ("away", "set_aside", "failed")
"""States of tables that a person must look at."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a capture is.

    Attributes:
        path: What was named: a capture file, or a log's directory.
        log: What its log is in.
        folder: Its state folder.
        file: Its file; None if a log was named, or if the file has a mistake.
        mistake: In the file.
    """

    path: Path
    log: Store
    folder: StateFolder
    file: CaptureFile | None = None
    mistake: TidemarkError | None = None

    @property
    def mistake_as_json(self) -> dict[str, str] | None:
        """The mistake's code, message and remedy."""
        return None if self.mistake is None else self.mistake.as_json()


def place_of(path: Path) -> Place:
    """The capture of a capture file, or of a log's folder.

    A capture that runs uses the file as it was: so if the file has a mistake, its log is the one that it had.

    Raises:
        UsageError: As ``read_capture_file``, if no log of the file is known.
    """
    if path.is_dir():
        return Place(path, DirectoryStore(path), StateFolder.of_log(path))
    folder = StateFolder.of_file(path)
    try:
        file = read_capture_file(path)
    except UsageError as error:
        place = KnownLog(path).place()
        if place is None:
            raise
        return Place(path, opened(place), folder, mistake=error)
    return Place(path, file.log_store(), folder, file)


def report_of(place: Place, now: datetime) -> tuple[dict[str, Any], Liveness]:
    """The report, and the liveness in it.

    Raises:
        ChangeLogError: As ``ChangeLog``; ``TM-LOG-013`` the log of the capture file is not there any more.
    """
    log = _log_of(place)
    said: JsonObject = read_status(place.folder, log.store) or {}
    life = liveness(said or None, now)
    other = place.folder.taken_by(log.store)
    if life.running or place.file is None:
        retained = retained_now(said, life)
    elif (taken := _taken(place.file, log, other, now)) is not None:
        retained = Retained(failures=[taken.as_json()])
    else:
        retained = ask_source(place.file, log, said, life, now)
    report = {
        "capture": log.header.capture,
        "file": None if place.path.is_dir() else str(place.path),
        "file_error": place.mistake_as_json or refused_edit(said, life),
        "log": log.store.place,
        "log_id": log.header.log_id,
        "written_by": None if other is None else str(other.path),
        **of_status(said, life, retained),
        **of_log(place, log, now),
    }
    report["needs"] = lacking = [need.text for need in needs(report, life)]
    report["exit_status"] = exit_status(life, lacking, retained.failures)
    return report, life


def refused_edit(said: JsonObject, life: Liveness) -> dict[str, str] | None:
    """Why a running capture does not use its file as that was edited; None if it does."""
    found: dict[str, str] | None = said.get("edit") if life.running else None
    return found


def of_status(said: JsonObject, life: Liveness, retained: Retained) -> dict[str, Any]:
    """What the capture itself has said: its state, its tables and their troubles.

    Args:
        said: Its last status; empty for a capture that has none.
    """
    tables = said.get("tables", {})
    running = life.state == "running"
    return {
        "state": life.state,
        "running": life.running,
        "since": None if life.since is None else life.since.isoformat(),
        "pid": life.pid or None,
        "source_away_since": said.get("source_away_since") if life.running else None,
        "error": said.get("error"),
        "folder_error": said.get("folder_error") if life.running else None,
        "lag_seconds": said.get("lag_seconds") if running else None,
        "caught_up": bool(said.get("caught_up")) if running else None,
        "retained": asdict(retained),
        "set_aside": {name: str(one.get("error") or "") for name, one in _halted(tables) if one["state"] != "away"},
        "halted": {
            name: {part: one.get(part) for part in ("state", "error", "remedy")} for name, one in _halted(tables)
        },
        "dropped": {name: one["dropped"] for name, one in tables.items() if one.get("dropped")},
        "rereads": {name: one.as_json() for name, one in rereads(tables).items()},
        "progress": said or None,
        "refused": {number: why for number, why in said.get("commands", {}).items() if why},
    }


def of_log(place: Place, log: ChangeLog, now: datetime) -> dict[str, Any]:
    """What the log holds, who reads it, what Spark keeps of it, and which commands wait in the state folder.

    Raises:
        ChangeLogError: As ``ChangeLog``.
    """
    summary = log.summary()
    kept = kept_and_read(log)
    spark = {} if place.file is None else spark_tables(place.file, log, now)
    waiting, bad = WaitingCommands.of(place.folder, log.store).look(0)
    return {
        "commit": summary.number,
        "committed": summary.time.isoformat(),
        "age_seconds": _age(now, summary.time),
        "data": _last_with_data(log, summary.next_offset, now),
        "events": summary.next_offset,
        "first_offset": kept.first_offset,
        "consumers": {one.name: one.as_json() for one in kept.consumers},
        "consumers_unknown": kept.unknown,
        "spark_set_aside": {name: one["set_aside"] for name, one in spark.items() if one["set_aside"]},
        "spark": spark,
        "verified": as_json(_verified(log.store)),
        "verification": _verification(place, now),
        "tables": {
            name.replace("/", "."): {"events": totals.events, "bytes": totals.bytes}
            for name, totals in sorted(summary.totals.items())
        },
        "commands": msgspec.to_builtins(waiting),
        "bad_commands": [error.as_json() for error in bad.values()],
    }


def _log_of(place: Place) -> ChangeLog:
    try:
        return ChangeLog(place.log)
    except ChangeLogError as error:
        known = None if place.path.is_dir() else KnownLog(place.path)
        if error.code != "TM-LOG-001" or known is None:
            raise
        if not (log_id := known.log_id(place.log)):
            start = f"Start it: tidemark capture {shlex.quote(str(place.path))}"
            raise ChangeLogError("TM-LOG-001", f"{error.message}: no capture has run here yet", remedy=start) from None
        what = f"the change log {log_id} is not at {place.log.place}; the file {known.path} records it"
        raise ChangeLogError("TM-LOG-013", what) from None


def _taken(file: CaptureFile, log: ChangeLog, other: StateFolder | None, now: datetime) -> ChangeLogError | None:
    """Why the capture of a file cannot write a log that has become another's; None if it can.

    Args:
        other: The state folder of another capture file that was the last to write it.
    """
    if log.header.capture != file.capture:
        return foreign(log, file.capture)
    life = liveness(None if other is None else read_status(other), now)
    return ChangeLogError("TM-LOG-006", f"process {life.pid} writes {log.store.place}") if life.exists else None


def _last_with_data(log: ChangeLog, end: int, now: datetime) -> dict[str, Any] | None:
    """The newest commit that has events; None while there is none."""
    if end == 0:
        return None
    commit = log.commit(log.commit_with_offset(end - 1))
    return {"commit": commit.number, "time": commit.time.isoformat(), "age_seconds": _age(now, commit.time)}


def _age(now: datetime, time: datetime) -> float:
    """In seconds; 0 of what another machine has noted by a clock that is ahead, as ``ago`` tells."""
    return round(max(0.0, (now - time).total_seconds()), 3)


def _verification(place: Place, now: datetime) -> dict[str, Any] | None:
    """How the verifications go that the capture file asks for; None where it asks for none."""
    entry = None if place.file is None else place.file.verify
    return None if entry is None else VerificationRecord.of(place.folder).as_json(entry.every, now)


def _verified(store: Store) -> dict[str, Verified]:
    try:
        return results_of(store)
    except OSError as error:
        raise unreadable(store.where(FOLDER), error) from None


def _halted(tables: JsonObject) -> list[tuple[str, JsonObject]]:
    return [(name, one) for name, one in tables.items() if one.get("state") in HALTED]
