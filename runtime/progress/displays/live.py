"""Progress as a live table on a terminal, log lines scrolling above it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tidemark.protocol.changelog import Commit
from tidemark.protocol.log_lines import LogLine, Progress
from tidemark.protocol.text.visible import visible
from tidemark.runtime.progress.display import severity
from tidemark.runtime.progress.figures import Figures, TableFigures
from tidemark.runtime.progress.quantities import duration, size

STYLES = {"error": "bold red", "fatal": "bold red", "warning": "yellow", "warn": "yellow", "debug": "dim"}

MOST_ROWS = 20
"""Further tables are summed up in one row: a live table must fit the screen."""


class LiveDisplay:
    """Draws on a terminal, four times a second."""

    def __init__(self, figures: Figures, level: str, console: Console) -> None:
        self._figures = figures
        self._least = severity(level)
        self._console = console
        self._lock = threading.RLock()
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=4, transient=False)

    def log(self, line: LogLine) -> None:
        with self._lock:
            if self._figures.status(line):
                return
        if severity(line.level) >= self._least:
            self._print(line.level, line.message)

    def notice(self, level: str, message: str, **fields: Any) -> None:
        if "retry_seconds" in fields:
            with self._lock:
                self._figures.connector_ended()
        if severity(level) >= self._least:
            self._print(level, message)

    def expect(self, tables: Iterable[str]) -> None:
        with self._lock:
            self._figures.expect(tables)

    def committed(self, commit: Commit, seconds: float) -> None:
        with self._lock:
            self._figures.committed(commit)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _print(self, level: str, message: str) -> None:
        style = STYLES.get(level, "default")
        self._console.print(f"[{style}]{level:>7}[/{style}]  {escape(visible(message))}", highlight=False)

    def _render(self) -> RenderableType:
        with self._lock:
            return draw(self._figures)


def draw(figures: Figures) -> RenderableType:
    """The table and a line of totals under it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("table")
    for column in ("rows", "of about", "rows/s", "left", "events"):
        table.add_column(column, justify="right")
    # Active tables come first.
    ordered = sorted(figures.tables.items(), key=lambda item: (_rank(item[1]), item[0]))
    for name, one in ordered[:MOST_ROWS]:
        table.add_row(escape(visible(name)), *_cells(one))
    if rest := ordered[MOST_ROWS:]:
        table.add_row(f"and {len(rest)} more", "", "", "", "", f"{sum(one.events for _, one in rest):,}")
    connector = figures.connector
    parts = [f"{figures.events:,} events in {figures.commits:,} commits", f"{figures.events_rate.per_second:,.0f}/s"]
    if figures.is_silent or connector.lag_seconds is None:
        parts.append("lag unknown")
    else:
        parts.append("caught up" if connector.caught_up else f"lag {duration(connector.lag_seconds)}")
    if connector.seconds_left:
        parts.append(f"backfills done in {duration(connector.seconds_left)}")
    if connector.held:
        parts.append(f"backfills waiting: {visible(connector.held)}")
    if connector.away_seconds is not None:
        parts.append(f"source unreachable for {duration(connector.away_seconds)}")
    if connector.retained_bytes is not None and figures.knows_source:
        parts.append(f"source retains {size(connector.retained_bytes)} of log{_forecast(connector)}")
    return Group(table, Text(" · ".join(parts), style="bold"), Text(visible(figures.doing), style="dim"))


def _forecast(connector: Progress) -> str:
    """When the source will drop the position at the present rate."""
    if connector.retained_limit is None or connector.retained_seconds_left is None:
        return ""
    return f", its limit of {size(connector.retained_limit)} in {duration(connector.retained_seconds_left)}"


def _rank(table: TableFigures) -> int:
    if table.progress is None:
        return 1
    return 2 if table.progress.done else 0


def _cells(table: TableFigures) -> list[str]:
    progress = table.progress
    if progress is None:
        return ["", "", "", "", f"{table.events:,}"]
    estimated = "" if progress.rows_estimated is None else f"{progress.rows_estimated:,}"
    rate = "" if progress.done else f"{table.rows_per_second:,.0f}"
    left = "done" if progress.done else duration(table.seconds_left)
    if progress.state in ("paused", "failed", "set_aside"):
        left = progress.state.replace("_", " ")
    return [f"{progress.rows_done:,}", estimated, rate, left, f"{table.events:,}"]
