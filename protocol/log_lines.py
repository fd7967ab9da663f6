"""Log lines as a runtime reads them, and the figures that status lines carry."""

from __future__ import annotations

import re
from typing import Any

import orjson
from pydantic import BaseModel

from tidemark.protocol.error_codes import Policy
from tidemark.protocol.logs import LEVELS

_ALARMING = re.compile(r"error|failed|panic|timeout|unable|unrecogni[sz]ed", re.IGNORECASE)


class RereadCause(BaseModel):
    """What happened to a table so that its rows are read again.

    Attributes:
        name: What happened, in a word, for programs.
        words: The same for people; empty in the state of an earlier version.
        columns: The columns or partitions that it affects.
        at: The position in the source's log to which it had been read when this took effect.
        time: When that was, in ISO form.
        emptied: Rows can have gone, or have other keys: rows downstream that are not read again must go.
        avoid: A sentence that says how to avoid it next time; empty if nothing does.
    """

    name: str
    words: str = ""
    columns: list[str] = []
    at: str
    time: str
    emptied: bool = False
    avoid: str = ""

    @property
    def text(self) -> str:
        """What happened, to what, and where in the log."""
        columns = f" ({', '.join(self.columns)})" if self.columns else ""
        return f"{self.words or self.name}{columns} at {self.at}"


class Reread(BaseModel):
    """The last time that the rows of a table were or are read again because of what happened to it.

    Attributes:
        causes: What happened, the first first. Each name is there once.
        put_off: It waits for the command ``resume``.
        begun: When it began, in ISO form; empty before.
        ended: When all rows were read; empty before.
        bytes_done: Bytes of the documents that it has emitted.
    """

    causes: list[RereadCause]
    put_off: bool = False
    begun: str = ""
    ended: str = ""
    bytes_done: int = 0

    @property
    def why(self) -> str:
        """All causes."""
        return ", ".join(cause.text for cause in self.causes)

    @property
    def empties(self) -> bool:
        """Whether rows downstream that are not read again must go."""
        return any(cause.emptied for cause in self.causes)


class TableProgress(BaseModel):
    """The progress of one table's backfill.

    Attributes:
        rows_done: Rows read and emitted by the scan.
        rows_estimated: The server's estimate of all rows, or None when it has none.
        done: The backfill is done; only the log is read.
        state: ``waiting`` for its turn, ``scanning``, ``paused``, ``failed`` (its backfill; its changes are captured),
            ``away`` (it cannot be captured as it is, and is set aside soon), ``set_aside`` (nothing of it is captured;
            for the three see ``error``), ``done``.
        paused: No rows of it are read, by command, though it may be done: then only its log is read.
        bytes_done: Bytes of the documents that this process emitted of it.
        bytes_estimated: The table's size on the source's disk, or None if it is unknown.
        rows_per_second: At present, smoothed.
        seconds_left: Until it is done at that rate, or None if unknown.
        error: Code and text of why it is away or set aside, or of what its last chunk failed with; None if that was
            read.
        remedy: What to do about ``error``.
        dropped: Code and text of why rows are not read that the last command for it asked for; None if they are.
        bad_values: How many values a document could not represent, by the policy that was applied.
        reread: Why its rows are or were read again; None if nothing has happened to it.
        seconds_needed: For a reread that is put off: about how long it takes, at the speed of the last chunks of this
            process with one reader; None if unknown.
        waits_for: What has to end at the source before its backfill, or its verification, begins; None if nothing has.
        verified_rows: Rows that a verification has read so far; None while there is none.
    """

    rows_done: int = 0
    rows_estimated: int | None = None
    done: bool = False
    state: str = "waiting"
    paused: bool = False
    bytes_done: int = 0
    bytes_estimated: int | None = None
    rows_per_second: float = 0.0
    seconds_left: float | None = None
    error: str | None = None
    remedy: str | None = None
    dropped: str | None = None
    bad_values: dict[str, int] = {}
    reread: Reread | None = None
    seconds_needed: float | None = None
    waits_for: str | None = None
    verified_rows: int | None = None


class Progress(BaseModel):
    """The figures of a status line.

    Attributes:
        tables: By resource path joined with a dot.
        position: The log position that has been emitted.
        lag_seconds: How far the capture is behind the source, 0 when its log is read to its end; None when unknown, as
            while the source gives no sign of life.
        silence_seconds: The source is asked for a sign of life, and a line follows, at least twice in this time. After
            it without one, nothing is known of the source; None when the connector does not say.
        retained_bytes: Log that the source retains for this capture.
        retained_limit: The most it retains before it drops the position; None if there is no limit.
        retained_by: Where or for what it is retained, in words: ``for slot NAME (reserved, active)``; None if unknown.
        retained_seconds_left: Until that at the present rate; None if it does not grow, or is unknown.
        rows_per_second: Of all backfills together, smoothed.
        seconds_left: Until all backfills are done at that rate, or None if unknown.
        held: Why no chunk is started at present, such as ``quiet hours``; None when chunks are.
        away_seconds: How long the source has been unreachable; None while it is reachable.
        caught_up: Every backfill is done and the log is read to where the server was.
    """

    tables: dict[str, TableProgress] = {}
    position: str = ""
    lag_seconds: float | None = None
    silence_seconds: float | None = None
    retained_bytes: int | None = None
    retained_limit: int | None = None
    retained_by: str | None = None
    retained_seconds_left: float | None = None
    rows_per_second: float = 0.0
    seconds_left: float | None = None
    held: str | None = None
    away_seconds: float | None = None
    caught_up: bool = False


class LogLine(BaseModel):
    """A log line as a runtime reads it from any connector."""

    level: str
    message: str
    event_type: str = ""
    fields: dict[str, Any] = {}

    @property
    def code(self) -> str:
        return self._text("code")

    @property
    def remedy(self) -> str:
        return self._text("remedy")

    @property
    def documentation(self) -> str:
        return self._text("documentation")

    @property
    def policy(self) -> Policy | None:
        """What its writer would do about the error; None if that is not said, or in a word that is not known here."""
        try:
            return Policy(self._text("policy"))
        except ValueError:
            return None

    def _text(self, field: str) -> str:
        value = self.fields.get(field)
        return "" if value is None else str(value)


def read_log_line(line: str) -> LogLine:
    """Reads a line that a connector wrote to stderr, JSON in any of the usual spellings or plain text."""
    try:
        body = orjson.loads(line)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        return LogLine(level="error" if _ALARMING.search(line) else "warning", message=line.rstrip("\n"))
    fields = body.pop("fields", None)
    fields = dict(fields) if isinstance(fields, dict) else {}
    message = str(body.pop("message", None) or body.pop("msg", None) or "")
    given = str(body.pop("level", None) or body.pop("lvl", None) or "").lower()
    event_type = str(body.pop("eventType", None) or fields.pop("eventType", None) or "")
    for name in ("ts", "timestamp", "time"):
        body.pop(name, None)
    level = LEVELS.get(given, given) or ("error" if _ALARMING.search(message) else "warning")
    return LogLine(level=level, message=message, event_type=event_type, fields={**body, **fields})
