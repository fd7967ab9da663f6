"""The figures at the top of the page: one for each chart, and one for the backfills together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidemark.runtime.page.charts import BYTES, LAG, RETAINED, ROWS, UNKNOWN, bytes_per_second, rows_per_second
from tidemark.runtime.page.history import Sample
from tidemark.runtime.page.table_rows import NOT_CAPTURED, TableRow
from tidemark.runtime.progress.liveness import time_of
from tidemark.runtime.progress.quantities import ago, duration, size
from tidemark.runtime.status.words import as_of_in_words, lag_in_words, limit_in_words

CAPTURE_CHARTS = (LAG, ROWS, RETAINED)
MATERIALIZE_CHARTS = (ROWS, BYTES)


def capture_figures(report: dict[str, Any], samples: Sequence[Sample], now: datetime) -> list[dict[str, Any]]:
    """What a capture shows: lag, rows per second, and what the source retains."""
    lag, _, caught_up = lag_in_words(report).partition(", ")
    return [
        _figure(LAG.name, "Lag", lag, caught_up or ("" if lag == UNKNOWN else "behind the source")),
        _figure(ROWS.name, "Rows per second", *_rate(samples), _last_commit(report, now)),
        _retained(report["retained"], now),
    ]


def materialize_figures(
    spark: dict[str, dict[str, Any]], samples: Sequence[Sample], written: tuple[int, int]
) -> list[dict[str, Any]]:
    """What ``materialize`` shows: how fast it applies events, and how far its tables are behind."""
    furthest = max((one["behind_seconds"] for one in spark.values()), default=None)
    behind = UNKNOWN if furthest is None else duration(furthest)
    last = samples[-1] if samples else None
    return [
        _figure("behind", "Furthest behind the log", behind, f"of {len(spark):,} tables" if spark else ""),
        _figure(
            ROWS.name,
            "Events applied per second",
            UNKNOWN if last is None else rows_per_second(last.rows),
            f"{written[0]:,} since it started",
        ),
        _figure(
            BYTES.name,
            "Written",
            UNKNOWN if last is None else bytes_per_second(last.bytes),
            f"{size(written[1])} since it started",
        ),
    ]


def backfills(rows: Sequence[TableRow], report: dict[str, Any]) -> dict[str, Any]:
    """How many tables have been read, and how long the others take."""
    said = report["progress"] or {}
    read = [row for row in rows if row.state != NOT_CAPTURED and row.figures]
    done = sum(bool(row.figures.get("done")) for row in read)
    left, held = said.get("seconds_left"), said.get("held")
    if not read:
        note = ""
    elif done == len(read):
        note = "all tables are read; changes are captured as they come"
    else:
        note = f"{'an unknown time' if left is None else duration(left)} left"
    return {
        "value": f"{done:,} of {len(read):,}" if read else UNKNOWN,
        "note": f"waiting: {held}" if held else note,
        "percent": 100 * done / len(read) if read else None,
    }


def _figure(name: str, label: str, value: str, *notes: str) -> dict[str, Any]:
    return {"name": name, "label": label, "value": value, "notes": [note for note in notes if note]}


def _rate(samples: Sequence[Sample]) -> tuple[str, str]:
    if not samples:
        return UNKNOWN, ""
    return rows_per_second(samples[-1].rows).removesuffix("/s"), bytes_per_second(samples[-1].bytes)


def _last_commit(report: dict[str, Any], now: datetime) -> str:
    data = report["data"]
    at = None if data is None else time_of(data["time"])
    if data is None or at is None:
        return "nothing was committed yet"
    return f"last commit {ago((now - at).total_seconds())}"


def _retained(retained: dict[str, Any], now: datetime) -> dict[str, Any]:
    count, limit = retained["bytes"], retained["limit"]
    known = count is not None
    limited = limit_in_words(retained).lstrip(",; ") if known else ""
    figure = _figure(
        RETAINED.name,
        "Log that the source retains",
        size(count) if known else UNKNOWN,
        limited,
        retained["by"],
        as_of_in_words(retained, now),
    )
    if known and limit:
        figure["limit"] = {
            "value": limit,
            "words": size(limit),
            "percent": min(100.0, 100 * count / limit),
            "share": f"{f'{100 * count / limit:.0f}' if 100 * count >= limit else 'less than 1'} % of its limit",
        }
    return figure
