"""What has changed between two reports of a capture's status."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tidemark.protocol.capture_file.notify_entry import Happening
from tidemark.protocol.errors import TidemarkError

AWAY_SECONDS = 60.0
"""A source that is away for less is no news: it restarts, or its network is slow."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A change of state.

    Attributes:
        event: Its name.
        text: A sentence for people.
        more: Members of its own.
        time: When it was noticed.
    """

    event: Happening
    text: str
    more: dict[str, Any] = field(default_factory=dict)
    time: datetime = field(default_factory=lambda: datetime.now(UTC))

    def payload(self, capture: str) -> dict[str, Any]:
        """The JSON that receivers get."""
        return {
            "event": self.event,
            "capture": capture,
            "time": self.time.isoformat(),
            "text": f"{capture}: {self.text}",
            **self.more,
        }


def failure(error: TidemarkError) -> Notification:
    """A capture has ended with an error."""
    more = {"code": error.code, "message": error.message, "remedy": error.remedy}
    return Notification("capture_failed", f"the capture failed with {error.code}: {error.message}", more)


class Changes:
    """Compares each report with the one before.

    Args:
        before: The last report of the run before; None without one. What it has is not told again.
        lag: A longer one is told, in seconds; None for none.
    """

    def __init__(self, before: dict[str, Any] | None, lag: float | None) -> None:
        self._states = _states(before or {})
        self._generations: dict[str, int] = {}
        self._lag = lag
        self._late = False
        self._away = False

    def since(self, report: dict[str, Any]) -> Iterator[Notification]:
        """What has changed, one notification for all tables that something has happened to."""
        tables: dict[str, dict[str, Any]] = report["tables"]
        now = _states(report)
        entered = {state: [n for n in now if now[n] == state != self._states.get(n)] for state in ("done", "set_aside")}
        again = [n for n, state in now.items() if self._states.get(n) == "set_aside" and state not in _NOT_CAPTURED]
        # A table that cannot be captured for a moment has the state in which it returns, later.
        self._states |= {name: state for name, state in now.items() if state != "away"}
        if done := entered["done"]:
            rows = [{"table": name, "rows": tables[name]["rows_done"]} for name in done]
            yield Notification("backfill_done", f"the backfill of {_listed(done)} is done", {"tables": rows})
        if shown := [name for name, number in _generations(tables).items() if number != self._generations.get(name)]:
            self._generations |= _generations(tables)
            numbers = [{"table": name, "generation": self._generations[name]} for name in shown]
            text = f"a new generation of {_listed(shown)} is shown"
            yield Notification("generation_shown", text, {"tables": numbers})
        if aside := entered["set_aside"]:
            why = [{"table": n, "error": tables[n]["error"] or "", "remedy": tables[n]["remedy"] or ""} for n in aside]
            text = f"nothing of {_listed(aside)} is captured: {why[0]['error']}"
            yield Notification("table_set_aside", text, {"tables": why})
        if again:
            text = f"{_listed(again)} captured again"
            yield Notification("table_captured_again", text, {"tables": [{"table": name} for name in again]})
        yield from self._source(report["away_seconds"])
        yield from self._lagging(report["lag_seconds"])

    def _source(self, away: float | None) -> Iterator[Notification]:
        if away is None and self._away:
            self._away = False
            yield Notification("source_back", "the source can be reached again")
        elif away is not None and away >= AWAY_SECONDS and not self._away:
            self._away = True
            yield Notification("source_away", f"the source is away for {away:.0f} s", {"away_seconds": away})

    def _lagging(self, lag: float | None) -> Iterator[Notification]:
        if self._lag is None or lag is None:  # An unknown lag is neither.
            return
        if (late := lag > self._lag) != self._late:
            self._late = late
            more = {"lag_seconds": lag, "limit_seconds": self._lag}
            text = f"the lag is {lag:.0f} s, of {self._lag:g} s"
            yield Notification("lag_over" if late else "lag_within", text, more)


_NOT_CAPTURED = ("set_aside", "away")


def _states(report: dict[str, Any]) -> dict[str, str]:
    """The states of those tables whose connector tells one."""
    tables = report.get("tables")
    found = tables.items() if isinstance(tables, dict) else ()
    return {name: str(table["state"]) for name, table in found if isinstance(table, dict) and "state" in table}


def _generations(tables: dict[str, dict[str, Any]]) -> dict[str, int]:
    """The generations that became whole while the capture ran. That a table has a first one, its backfill tells."""
    found = {name: table.get("generation") for name, table in tables.items()}
    return {name: number for name, number in found.items() if number is not None and number > 1}


def _listed(names: list[str]) -> str:
    """The first names, and how many there are more."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
