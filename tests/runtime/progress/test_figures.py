"""Figures of a running capture."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest
from rich.console import Console

from tidemark.protocol.changelog import Commit, Segment
from tidemark.protocol.log_lines import LogLine, TableProgress
from tidemark.runtime.progress.displays.lines import LineDisplay
from tidemark.runtime.progress.displays.live import MOST_ROWS, LiveDisplay, draw
from tidemark.runtime.progress.figures import Figures, Rate, TableFigures
from tidemark.runtime.progress.quantities import duration, size


def status(**tables: tuple[int, int | None, bool]) -> LogLine:
    figures = {
        name.replace("_", "."): {"rows_done": done, "rows_estimated": estimated, "done": ready}
        for name, (done, estimated, ready) in tables.items()
    }
    fields = {"tables": figures, "lag_seconds": 0.25, "retained_bytes": 2_000_000, "caught_up": False}
    return LogLine(level="info", message="backfilling", event_type="connectorStatus", fields=fields)


def commit(number: int, first: int, rows: int, collection: str = "public/t") -> Commit:
    segment = Segment(
        collection=collection,
        path="p",
        rows=rows,
        size=1,
        uncompressed=1,
        first_offset=first,
        last_offset=first,
        fingerprint="f",
    )
    return Commit(
        number=number,
        epoch=1,
        time=datetime.now(UTC),
        first_offset=first,
        next_offset=first + rows,
        segments=[segment],
    )


def test_rates_are_averages_over_the_last_seconds() -> None:
    clock = iter([0.0, 1.0, 2.0, 30.0, 31.0])
    rate = Rate(lambda: next(clock))
    rate.note(0)
    assert rate.per_second == 0.0
    rate.note(100)
    rate.note(300)
    assert rate.per_second == 150.0
    rate.note(300)
    rate.note(400)
    assert rate.per_second == 100.0


def test_a_count_that_went_back_starts_anew() -> None:
    clock = iter([0.0, 1.0, 2.0])
    rate = Rate(lambda: next(clock))
    for count in (0, 500, 100):
        rate.note(count)
    assert rate.per_second == 0.0


def test_the_time_left_of_a_backfill() -> None:
    clock = iter([0.0, 1.0])
    table = TableFigures(TableProgress(rows_done=100, rows_estimated=400), Rate(lambda: next(clock)))
    assert seconds_left(table, TableProgress(rows_done=100, rows_estimated=400)) is None
    table.rate.note(0)
    table.rate.note(100)
    assert seconds_left(table, TableProgress(rows_done=100, rows_estimated=400)) == 3.0
    assert seconds_left(table, TableProgress(rows_done=500, rows_estimated=400)) == 0.0
    assert seconds_left(table, TableProgress(rows_done=500, done=True)) is None


def seconds_left(table: TableFigures, progress: TableProgress) -> float | None:
    table.progress = progress
    return table.seconds_left


def test_status_lines_and_commits_become_figures() -> None:
    figures = Figures()
    figures.expect(["public.t", "public.u"])
    assert figures.status(status(public_t=(10, 100, False)))
    figures.committed(commit(1, 0, 7))
    fields = figures.as_fields()
    assert list(fields["tables"]) == ["public.t", "public.u"]
    assert fields["tables"]["public.t"]["rows_done"] == 10
    assert fields["tables"]["public.t"]["events"] == 7
    assert (fields["events"], fields["commit"], fields["lag_seconds"]) == (7, 1, 0.25)


@pytest.mark.parametrize(
    "line",
    [
        LogLine(level="info", message="hello"),
        LogLine(level="info", message="Backfilling Tables", event_type="connectorStatus"),
        LogLine(level="info", message="x", event_type="connectorStatus", fields={"tables": 3}),
        LogLine(level="info", message="x", event_type="connectorStatus", fields={"other": 3}),
    ],
)
def test_lines_without_figures_are_words(line: LogLine) -> None:
    assert not Figures().status(line)


def test_progress_lines_come_at_most_once_a_second_and_at_the_end() -> None:
    stream = io.StringIO()
    with LineDisplay(Figures(), "info", stream) as display:
        for number in range(100):
            display.committed(commit(number, number, 1), 0.01)
        display.log(LogLine(level="debug", message="too much"))
        display.log(LogLine(level="warning", message="look", fields={"slot": "s"}))
        display.notice("info", "from the runtime", code="X")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    progress = [line["fields"] for line in lines if line.get("eventType") == "captureProgress"]
    assert len(progress) < 10
    assert progress[-1]["events"] == 100
    others = [line for line in lines if line.get("eventType") != "captureProgress"]
    assert [(line["level"], line["message"], line["fields"]) for line in others] == [
        ("warning", "look", {"from": "connector", "slot": "s"}),
        ("info", "from the runtime", {"code": "X"}),
    ]


def test_the_level_silences_lines() -> None:
    stream = io.StringIO()
    with LineDisplay(Figures(), "error", stream) as display:
        display.committed(commit(1, 0, 1), 0.01)
        display.log(LogLine(level="warning", message="quiet"))
        display.log(LogLine(level="error", message="loud"))
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["loud"]


def rendered(figures: Figures) -> str:
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as captured:
        console.print(draw(figures))
    return captured.get()


def test_the_table_on_the_terminal() -> None:
    figures = Figures()
    figures.status(status(public_t=(10, 1000, False), public_u=(7, None, True)))
    figures.committed(commit(1, 0, 17))
    text = rendered(figures)
    assert "public.t" in text
    assert "1,000" in text
    assert "done" in text
    assert "17 events in 1 commits" in text
    assert "lag 250 ms" in text
    assert "source retains 2.0 MB of log" in text
    figures.connector_ended()
    text = rendered(figures)
    assert "lag unknown" in text and "retains" not in text


def test_many_tables_are_summed_up() -> None:
    figures = Figures()
    figures.expect(f"public.t{number}" for number in range(MOST_ROWS + 5))
    assert "and 5 more" in rendered(figures)


def test_log_lines_scroll_above_the_live_table() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with LiveDisplay(Figures(), "info", console) as display:
        display.expect(["public.t"])
        display.log(status(public_t=(10, 1000, False)))
        display.log(LogLine(level="error", message="[not markup] broken"))
        display.log(LogLine(level="debug", message="too much"))
        display.notice("warning", "again in 3 s")
        display.committed(commit(1, 0, 17), 0.01)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "[not markup] broken" in text
    assert "again in 3 s" in text
    assert "too much" not in text
    assert "17 events in 1 commits" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (-7191.554, "0 ms"), (0.85, "850 ms"), (12.3, "12 s"), (200, "3 min 20 s"), (18720, "5 h 12 min")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (64e6, "64.0 MB"), (2e12, "2.0 TB"), (5e15, "5000.0 TB")],
)
def test_sizes(count: float, text: str) -> None:
    assert size(count) == text
