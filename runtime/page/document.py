"""What ``/page.json`` says: the report of ``tidemark status``, in words, with the last hour beside it."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from tidemark.protocol.text.visible import visible
from tidemark.runtime.page.charts import history_json
from tidemark.runtime.page.figures import (
    CAPTURE_CHARTS,
    MATERIALIZE_CHARTS,
    backfills,
    capture_figures,
    materialize_figures,
)
from tidemark.runtime.page.history import History
from tidemark.runtime.page.log_facts import Facts, LogFacts
from tidemark.runtime.page.recent_errors import RecentErrors
from tidemark.runtime.page.sections import consumers_json, errors_json, needs_json, notes, rereads_json, spark_json
from tidemark.runtime.page.table_rows import TableRow, table_rows, tables_json
from tidemark.runtime.progress.liveness import Liveness, liveness
from tidemark.runtime.status.report import of_status, refused_edit
from tidemark.runtime.status.retained import retained_now

FRESH_SECONDS = 0.8
"""For so long all who look are told the same: with thousands of tables a report takes a while."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """What one who looks wants to see.

    Attributes:
        wanted: A part of the names of tables; empty for all.
        after: The number of the last sample that the page has.
    """

    wanted: str = ""
    after: int = 0


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known at one moment, of which each who looks sees a part."""

    at: float
    now: datetime
    said: Json
    life: Liveness
    report: Json
    facts: Facts
    rows: list[TableRow]


class Document(ABC):
    """What the page shows, of one process.

    Args:
        capture: Its name.
        file: The capture file's path, as remedies name it.
        facts: What is known of the log.
        history: The figures of the last hour.
    """

    def __init__(self, capture: str, file: str, facts: LogFacts, history: History) -> None:
        self._capture = capture
        self._file = file
        self._facts = facts
        self._history = history
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self._began = f"{os.getpid()} {time.time()}"

    def as_json(self, view: View) -> Json:
        """All that the page shows. Text of others is without control characters. From any thread."""
        found: Json = _visible({**self._frame(), **self._shown(self._now(), view)})
        return found

    def _now(self) -> _Known:
        with self._lock:
            if self._known is None or time.monotonic() - self._known.at >= FRESH_SECONDS:
                self._known = self._look()
            return self._known

    def _look(self) -> _Known:
        facts = self._facts.latest()
        now, said = datetime.now(UTC), self._said(facts)
        life = liveness(said or None, now)
        report = {
            "capture": self._capture,
            "file": self._file,
            "file_error": facts.mistake or refused_edit(said, life),
            **of_status(said, life, retained_now(said, life)),
            **facts.of_log,
        }
        return _Known(
            time.monotonic(), now, said, life, report, facts, table_rows(said.get("tables", {}), report["tables"])
        )

    def _frame(self) -> Json:
        return {"capture": self._capture, "version": version("tidemark"), "began": self._began}

    @abstractmethod
    def _said(self, facts: Facts) -> Json: ...

    @abstractmethod
    def _shown(self, known: _Known, view: View) -> Json: ...


class CaptureDocument(Document):
    """What the page of a capture shows.

    Args:
        said: What the capture says of itself now, as its status file.
        errors: Its last errors.
    """

    def __init__(
        self,
        capture: str,
        file: str,
        facts: LogFacts,
        history: History,
        said: Callable[[], Json],
        errors: RecentErrors,
    ) -> None:
        super().__init__(capture, file, facts, history)
        self._report = said
        self._errors = errors

    def _said(self, facts: Facts) -> Json:
        return self._report()

    def _shown(self, known: _Known, view: View) -> Json:
        report, life, samples = known.report, known.life, self._history.samples()
        return {
            "kind": "capture",
            "state": _state(life, known.now),
            "needs": needs_json(report, life),
            "notes": list(notes(report, known.facts.unknown)),
            "figures": capture_figures(report, samples, known.now),
            "backfills": backfills(known.rows, report),
            "history": history_json(CAPTURE_CHARTS, samples, view.after),
            "tables": tables_json(known.rows, view.wanted),
            "rereads": rereads_json(report, known.now),
            "spark": spark_json(report["spark"]),
            "consumers": consumers_json(report["consumers"], known.now),
            "errors": errors_json(self._errors.newest_first(), known.now),
            "log": f"{report['events']:,} events in {known.facts.log}" if known.facts.log else "",
        }


class MaterializeDocument(Document):
    """What the page of ``materialize`` shows: its tables, and what the capture said last.

    Args:
        written: Events applied so far, and bytes written.
    """

    def __init__(
        self, capture: str, file: str, facts: LogFacts, history: History, written: Callable[[], tuple[int, int]]
    ) -> None:
        super().__init__(capture, file, facts, history)
        self._written = written
        self._started = datetime.now(UTC)

    def _said(self, facts: Facts) -> Json:
        return facts.said

    def _shown(self, known: _Known, view: View) -> Json:
        report, samples = known.report, self._history.samples()
        life = Liveness("running", True, self._started, os.getpid())
        return {
            "kind": "materialize",
            "state": _state(life, known.now),
            "needs": needs_json(report, known.life),
            "notes": [f"the capture: {known.life.in_words(known.now)}", *notes(report, known.facts.unknown)],
            "figures": materialize_figures(report["spark"], samples, self._written()),
            "backfills": None,
            "history": history_json(MATERIALIZE_CHARTS, samples, view.after),
            "tables": None,
            "rereads": [],
            "spark": spark_json(report["spark"]),
            "consumers": consumers_json(report["consumers"], known.now),
            "errors": [],
            "log": f"{report['events']:,} events in {known.facts.log}" if known.facts.log else "",
        }


def _state(life: Liveness, now: datetime) -> Json:
    return {"name": life.state, "text": life.in_words(now), "tone": "good" if life.state == "running" else "bad"}


def _visible(value: Any) -> Any:
    """The same with the control characters of all text escaped, as on a terminal: a name may turn text around."""
    match value:
        case str():
            return visible(value)
        case dict():
            return {name: _visible(part) for name, part in value.items()}
        case list():
            return [_visible(part) for part in value]
    return value
