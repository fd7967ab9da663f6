"""The tables of a capture as rows of the page: those that need somebody first, and not more than a page can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidemark.runtime.page.charts import rows_per_second
from tidemark.runtime.progress.quantities import duration, size
from tidemark.runtime.status.report import HALTED
from tidemark.runtime.status.words import state_in_words

MOST_ROWS = 200
"""In one answer. The filter finds the others."""

NOT_CAPTURED = "not captured"
"""The state of a table that the log has and the capture does not."""

_HALTED, _READ = 0, 1
_TURNS = {
    **dict.fromkeys((state.replace("_", " ") for state in HALTED), _HALTED),
    "paused": 2,
    "done; paused": 2,
    "waiting": 3,
}
_OTHERS, _DONE, _NOT_CAPTURED = 4, 5, 6
_TONES = {_HALTED: "bad", _DONE: "good"}


@dataclass(frozen=True, slots=True)
class TableRow:
    """One table.

    Attributes:
        name: Joined with dots.
        state: In words.
        turn: Those with a lower one are shown first.
        figures: What the capture says of it; empty if it says nothing.
        totals: What the log holds of it: ``events`` and ``bytes``.
    """

    name: str
    state: str
    turn: int
    figures: dict[str, Any]
    totals: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        return {
            "name": self.name,
            "state": self.state,
            "tone": "active" if self.state == "scanning" else _TONES.get(self.turn, "idle"),
            "why": self._why(),
            "events": f"{self.totals['events']:,}",
            "size": size(self.totals["bytes"]),
            **self._backfill(),
        }

    def _why(self) -> str:
        """What its state does not say."""
        figures = self.figures
        if figures.get("error") or figures.get("dropped"):
            return str(figures.get("error") or figures["dropped"])
        if figures.get("waits_for") and figures.get("state") == "waiting":
            return f"waits for {figures['waits_for']}"
        bad = sum((figures.get("bad_values") or {}).values())
        return f"{bad:,} values that no document could represent" if bad else ""

    def _backfill(self) -> dict[str, Any]:
        if "rows_done" not in self.figures:
            return {"rows": "", "percent": None, "rate": "", "left": ""}
        done, estimated = self.figures["rows_done"], self.figures.get("rows_estimated")
        whole = bool(self.figures.get("done"))
        left = self.figures.get("seconds_left")
        percent = 100.0 if whole else min(99.0, 100 * done / estimated) if estimated else None
        return {
            "rows": f"{done:,}" if whole or estimated is None else f"{done:,} of about {estimated:,}",
            "percent": percent if whole or done else 0.0 if estimated else None,
            "rate": rows_per_second(self.figures.get("rows_per_second") or 0.0) if self.turn == _READ else "",
            "left": "" if left is None or whole else duration(left),
        }


def table_rows(progress: dict[str, Any], totals: dict[str, Any]) -> list[TableRow]:
    """All tables, in the order in which they are shown.

    Args:
        progress: By table, what the capture says.
        totals: By table, what the log holds.
    """
    nothing = {"events": 0, "bytes": 0}
    rows = [_row(name, progress.get(name), totals.get(name, nothing), bool(progress)) for name in {*progress, *totals}]
    return sorted(rows, key=lambda row: (row.turn, row.name))


def _row(name: str, figures: dict[str, Any] | None, totals: dict[str, int], known: bool) -> TableRow:
    if figures is None:
        return TableRow(name, NOT_CAPTURED if known else "", _NOT_CAPTURED, {}, totals)
    state = state_in_words(figures) or ("" if "rows_done" in figures else "waiting")
    return TableRow(name, state, _turn(state, figures), figures, totals)


def _turn(state: str, figures: dict[str, Any]) -> int:
    # One that is read waits between two chunks, and is not to jump up and down.
    if state == "scanning" or (state == "waiting" and figures.get("rows_done") and not figures.get("done")):
        return _READ
    return _DONE if figures.get("done") and state not in _TURNS else _TURNS.get(state, _OTHERS)


def tables_json(rows: Iterable[TableRow], wanted: str) -> dict[str, Any]:
    """What the page shows of the tables.

    Args:
        rows: In their order.
        wanted: A part of the names to show, in any case; empty for all.
    """
    every = list(rows)
    low = wanted.casefold()
    found = [row for row in every if low in row.name.casefold()] if low else every
    counts = Counter(row.state for row in every if row.state)
    return {
        "total": len(every),
        "counts": [{"state": state, "count": f"{count:,}"} for state, count in counts.items()],
        "found": len(found),
        "shown": [row.as_json() for row in found[:MOST_ROWS]],
        "more": _more(len(found)),
        "summary": f"{len(found):,} of {len(every):,} tables" if low else _tables(len(every)),
    }


def _more(found: int) -> str:
    rest = found - MOST_ROWS
    return f"and {rest:,} more: filter by name to see them" if rest > 0 else ""


def _tables(count: int) -> str:
    return "1 table" if count == 1 else f"{count:,} tables"
