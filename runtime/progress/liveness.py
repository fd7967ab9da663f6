"""Whether a capture runs, from its status file: on this machine or on another that shares the log."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.runtime.progress.processes import Process, known, uptime
from tidemark.runtime.progress.quantities import duration

FRESH_SECONDS = 20.0
"""A running capture writes its status file several times in this time."""

SILENT_SECONDS = 30.0
"""A connector with status lines sends several in this time, unless it says another one."""

SLACK_SECONDS = 2.0
"""What a status line may take until it is in the file."""


@dataclass(frozen=True, slots=True)
class Liveness:
    """What is known of a capture's processes.

    Attributes:
        state: ``running``; ``waiting for the source``; ``waiting for the log``, which cannot be written; ``connector
            failed``, until another one is open; ``connector silent``; ``not answering``, for a process that exists but
            does not write its status, or was halted by a signal; ``stopped``, ``caught up``, ``failed`` and ``killed``
            after the end; ``unknown``.
        running: It runs, whatever the state of its source or connector.
        since: When the state began, as far as known.
        pid: Id of the process, 0 if unknown.
        halted: It was halted by a signal, or by a debugger, and continues when it is told to.
    """

    state: str
    running: bool
    since: datetime | None = None
    pid: int = 0
    halted: bool = False

    @property
    def exists(self) -> bool:
        """Whether it has a process, which may go on at any time though it does not answer; its connector may, too."""
        return self.running or self.state == "not answering"

    def in_words(self, now: datetime) -> str:
        """The state for people."""
        ago = duration((now - self.since).total_seconds()) if self.since else "an unknown time"
        match self.state:
            case "running":
                return f"running (process {self.pid}) for {ago}"
            case "waiting for the source":
                return f"running (process {self.pid}), but the source has been unreachable for {ago}"
            case "waiting for the log":
                return f"running (process {self.pid}), but its change log could not be written for {ago}"
            case "connector failed":
                return f"running (process {self.pid}), but its connector failed {ago} ago, and is opened again"
            case "connector silent":
                return f"running (process {self.pid}), but its connector has sent nothing for {ago}"
            case "not answering" if self.halted:
                return f"NOT ANSWERING: process {self.pid} is halted, by a signal; kill -CONT {self.pid} continues it"
            case "not answering":
                return f"NOT ANSWERING: process {self.pid} exists, but has not written its status for {ago}"
            case "unknown" if self.since is None:
                return "NOT RUNNING: no capture has run here yet"
            case "unknown":
                return f"NOT RUNNING here: a capture on another machine last wrote its status {ago} ago"
            case "killed":
                return f"NOT RUNNING: process {self.pid} was killed; it last wrote its status {ago} ago"
            case outcome:
                return f"NOT RUNNING: {outcome} {ago} ago"


def liveness(status: dict[str, Any] | None, now: datetime | None = None) -> Liveness:
    """The liveness of the capture that wrote this status; None for a log without one."""
    if status is None:
        return Liveness("unknown", False)
    moment = now or datetime.now(UTC)
    pid = status.get("pid")
    pid = pid if isinstance(pid, int) else 0
    written = time_of(status.get("time"))
    ended = time_of(status.get("ended"))
    if ended is not None:
        return Liveness(str(status.get("outcome")), False, ended, pid)
    here = status.get("host") == socket.gethostname()
    if here and written is not None and isinstance(said := status.get("uptime"), int | float) and said <= uptime():
        moment = written + timedelta(seconds=uptime() - said)  # Somebody may have set the clock since.
    fresh = written is not None and (moment - written).total_seconds() < FRESH_SECONDS
    process = known(pid) if here else None
    if here and (process is None or (not fresh and written is not None and _is_younger(process, written))):
        return Liveness("killed", False, written, pid)
    if process is not None and process.halted:
        return Liveness("not answering", False, written, pid, halted=True)
    if not fresh:
        return Liveness("not answering" if here else "unknown", False, written, pid)
    if isinstance(retry := status.get("retry"), dict):
        state = "waiting for the log" if str(retry.get("code")).startswith("TM-LOG-") else "connector failed"
        return Liveness(state, True, time_of(retry.get("since")), pid)
    if (away := time_of(status.get("source_away_since"))) is not None:
        return Liveness("waiting for the source", True, away, pid)
    heard = time_of(status.get("status_time"))
    said = status.get("silence_seconds")
    limit = said + SLACK_SECONDS if isinstance(said, int | float) else SILENT_SECONDS
    if heard is not None and (moment - heard).total_seconds() > limit:
        return Liveness("connector silent", True, heard, pid)
    return Liveness("running", True, time_of(status.get("started")), pid)


def time_of(text: object) -> datetime | None:
    """A time in the file's form; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _is_younger(process: Process, written: datetime) -> bool:
    """Whether a process began after a status was written: the one that wrote it has ended, and left its id to this."""
    return process.began is not None and process.began > written + timedelta(seconds=SLACK_SECONDS)
