"""``tidemark plan``: the connector's plan for people and programs, and the time it takes."""

from __future__ import annotations

import json

import pytest

from tests.runtime.capture_folder import CaptureFolder
from tidemark.protocol.answers.plan import Plan, TablePlan
from tidemark.runtime.commands.plan import seconds, table_seconds

FIELDS = {
    "readers": 2,
    "tables": {
        "public.t": {
            "scan": "key",
            "key": ["id"],
            "ranges": 2,
            "rows_estimated": 1_000_000,
            "bytes_estimated": 250_000_000,
            "rows_per_second": 50_000.0,
        }
    },
}
LINE = {"level": "info", "message": "plan", "eventType": "backfillPlan", "fields": FIELDS}
ANSWER = {"message": {"validated": {"bindings": [{"resourcePath": ["public", "t"]}]}}}


def test_a_plan_is_shown(folder: CaptureFolder) -> None:
    folder.script(validate=[{"stderr": json.dumps(LINE)}, ANSWER])
    shown = folder.run("plan", str(folder.file))
    assert shown.returncode == 0, shown.stderr
    assert "public.t" in shown.stdout
    assert "1,000,000" in shown.stdout
    assert "1 tables, 2 readers: about 10 s" in shown.stdout
    printed = json.loads(folder.run("plan", str(folder.file), "--json").stdout)
    assert printed == {**FIELDS, "seconds": 10.0}
    # A plan changes nothing: there is no log, and the source was not prepared.
    assert not folder.log_path.exists()
    assert folder.requests("apply") == []


def test_a_connector_without_plans_is_named(folder: CaptureFolder) -> None:
    folder.script()
    failed = folder.run("plan", str(folder.file))
    assert failed.returncode == 1
    assert "TM-RUN-018" in failed.stderr


@pytest.mark.parametrize(
    ("tables", "readers", "expected"),
    [
        ([(100.0, 1, 10.0)], 4, 10.0),  # One table that cannot be cut keeps one reader busy.
        ([(100.0, 4, 10.0)], 4, 2.5),
        ([(100.0, 1, 10.0), (100.0, 1, 10.0)], 2, 10.0),
        ([(100.0, 1, 10.0), (None, 1, 10.0)], 2, None),  # Half of an answer would mislead.
        ([], 2, 0.0),
    ],
)
def test_the_time_of_all_readers(
    tables: list[tuple[float | None, int, float]], readers: int, expected: float | None
) -> None:
    planned = {
        str(index): TablePlan(
            scan="key", ranges=ranges, rows_estimated=None if rows is None else int(rows), rows_per_second=speed
        )
        for index, (rows, ranges, speed) in enumerate(tables)
    }
    assert seconds(Plan(readers=readers, tables=planned)) == expected


def test_a_table_that_is_not_read_takes_no_time() -> None:
    assert table_seconds(TablePlan(scan="none", rows_estimated=10)) == 0.0
