"""What the command prints."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tidemark.protocol.error_codes import REGISTERED
from tidemark.protocol.errors import ChangeLogError, SparkError, UsageError
from tidemark.spark_sink.command import exit_status, setting
from tidemark.spark_sink.output import JsonOutput, TextOutput, reading
from tidemark.spark_sink.run.figures import count, duration, size
from tidemark.spark_sink.run.report import Applied, Cost, KeptTable, MaterializeReport, PlannedPart

LONG = "public." + "a_table_of_a_very_long_name" * 5
PART = PlannedPart(LONG, "current", "task", 5, 15, 10, 1_234_567, 2, "one small file")
APPLIED = Applied(PART, Cost(1.25, 0.8, 1000, 20_000))


def kept(table: str, path: Path | str = Path("/lake/x"), kind: str = "current", **more: object) -> KeptTable:
    return KeptTable(table, kind, path, **{"way": "task", "events": 10, "rows": 2, "position": 15, **more})  # type: ignore[arg-type]


ASIDE = kept("public.b", rows=None, events=0, behind=5, stale_seconds=77.0, error="TM-SPK-012: the key changed")
REPORT = MaterializeReport((kept(LONG, cost=APPLIED.cost), ASIDE), 20, 3.3)


def test_plan_progress_and_result_are_lines_with_whole_names() -> None:
    out, errors = io.StringIO(), io.StringIO()
    output = TextOutput(out, errors)
    output.planned([PART])
    output.applied(APPLIED)
    output.set_aside("public.b", "current", SparkError("TM-SPK-012", "the key changed"))
    output.result(REPORT)
    plan, done, table, aside, total, heading, _ = out.getvalue().splitlines()
    assert plan == f"plan  {LONG} current  task (one small file): 10 events, 1.23 MB, 2 files of the table"
    assert done == f"done  {LONG} current  10 events up to offset 15, 1.2 s (0.8 CPU-s, 1 kB read, 20 kB written)"
    assert table.startswith(f"kept  {LONG} current  2 rows at offset 15; 10 events in 1.2 s")
    assert aside.startswith("aside public.b current")
    assert aside.endswith("  no table at offset 15, 5 events and 77 s behind, in /lake/x: TM-SPK-012: the key changed")
    assert total.startswith("10 events applied, the log up to offset 20, in 3.3 s (0.8 CPU-s")
    assert heading == f"rows of {LONG} current:"
    assert errors.getvalue() == (
        "error TM-SPK-012: public.b current is set aside: the key changed\n"
        f"  what to do: {REGISTERED['TM-SPK-012'].remedy} Then run again with --retry public.b.\n"
    )


def test_who_heals_a_table_that_is_looked_at_by_each_run_need_not_ask_for_it() -> None:
    errors = io.StringIO()
    error = SparkError("TM-SPK-006", "it is at offset 9", remedy="Bring the newer log back.")
    TextOutput(io.StringIO(), errors).set_aside("public.b", "current", error)
    assert errors.getvalue().endswith("  what to do: Bring the newer log back.\n")


def test_json_is_one_object_and_progress_is_on_stderr() -> None:
    out, errors = io.StringIO(), io.StringIO()
    output = JsonOutput(out, errors)
    output.planned([PART])
    output.applied(APPLIED)
    output.set_aside("public.b", "current", SparkError("TM-SPK-012", "the key changed"))
    output.result(REPORT)
    report = json.loads(out.getvalue())
    assert (report["events"], report["end_offset"], report["cost"]["cpu_seconds"]) == (10, 20, 0.8)
    assert [(table["table"], table["error"]) for table in report["tables"]] == [
        (LONG, None),
        ("public.b", "TM-SPK-012: the key changed"),
    ]
    planned, applied, aside = map(json.loads, errors.getvalue().splitlines())
    assert (planned["eventType"], planned["reason"]) == ("materializePlanned", "one small file")
    assert (applied["eventType"], applied["cost"]["bytes_written"]) == ("materializeApplied", 20_000)
    assert (aside["eventType"], aside["code"], aside["table"]) == ("materializeSetAside", "TM-SPK-012", "public.b")


def test_what_would_steer_a_terminal_is_escaped() -> None:
    out = io.StringIO()
    TextOutput(out, io.StringIO()).result(
        MaterializeReport((kept("public.a\x1b[2J\nb\u202e", Path("/l\x1b/é")),), 1, 1.0)
    )
    assert "public.a\\x1b[2J\\nb\\u202e" in out.getvalue()
    assert all(c.isprintable() for line in out.getvalue().split("\n") for c in line)


@pytest.mark.heavy
@pytest.mark.drawn(2)
@pytest.mark.parametrize("folder", ["lake", "a lake", "it's", 'a "lake"', "é\U0001f30a", "$HOME`x`"])
def test_the_last_line_reads_the_table_where_it_is_pasted(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "public" / "items"
    write_deltalake(str(path), pa.table({"id": [1, 2], "name": ["x", None]}))
    out = io.StringIO()
    TextOutput(out, io.StringIO()).result(MaterializeReport((kept("public.items", path),), 1, 1.0))
    line = out.getvalue().splitlines()[-1]
    done = subprocess.run(["sh", "-c", line], cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout == "{'id': 1, 'name': 'x'}\n{'id': 2, 'name': None}\n"


def test_the_table_that_is_shown_has_rows_and_is_not_set_aside() -> None:
    assert reading([]) is None
    assert reading([ASIDE, kept("public.c", rows=None)]) is None
    assert reading([kept("public.c", path="s3://bucket/lake/public/c/current")]) is None
    empty, history, current = kept("public.a", rows=0), kept("public.b", kind="history"), kept("public.c")
    for tables, shown_first in (
        ([ASIDE, empty, history, current], current),
        ([empty, history], history),
        ([empty], empty),
    ):
        found = reading(tables)
        assert found is not None
        assert found[0] is shown_first


def test_figures() -> None:
    assert [size(n) for n in (0, 999, 1000, 1_234_567, 999_900, 5 * 10**9, 3 * 10**12)] == [
        "0 B", "999 B", "1 kB", "1.23 MB", "1 MB", "5 GB", "3 TB"
    ]  # fmt: skip
    assert [duration(s) for s in (0.04, 9.9, 60, 600, 10_000)] == ["0.0 s", "9.9 s", "60 s", "10 min", "2.8 h"]
    assert [count(n, "row") for n in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]


def test_exit_statuses() -> None:
    assert exit_status(UsageError("TM-CFG-002", "x")) == 2
    assert exit_status(SparkError("TM-SPK-010", "x")) == 3
    assert exit_status(ChangeLogError("TM-LOG-001", "x")) == 1


def test_a_setting_is_a_name_and_a_value_that_is_not_repeated() -> None:
    assert setting("spark.a=b=c") == ("spark.a", "b=c")
    for wrong in ("spark.a", "password=hunter2", "=hunter2"):
        with pytest.raises(ValueError, match=r"^a setting is spark\.NAME=VALUE$"):
            setting(wrong)
