"""What the page is told: what ``tidemark status`` says, and no more of it than a page can show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.page.shown_capture import HOSTILE_SHOWN, ShownCapture, ask, shown, status_line
from tests.runtime.scripted_sessions import Recorder
from tidemark.protocol.log_lines import LogLine
from tidemark.runtime.page import document
from tidemark.runtime.page.recent_errors import MOST, RecentErrors
from tidemark.runtime.page.sections import MOST_NEEDS
from tidemark.runtime.page.serving import view_of
from tidemark.runtime.page.table_rows import MOST_ROWS, table_rows, tables_json
from tidemark.testing.deadline import wait_until


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShownCapture]:
    """One that is asked again each time."""
    monkeypatch.setattr(document, "FRESH_SECONDS", 0.0)
    with shown(tmp_path) as found:
        yield found


def figures(said: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {figure["name"]: figure for figure in said["figures"]}


def test_the_capture_and_what_needs_somebody_come_first(capture: ShownCapture) -> None:
    said = capture.asked()
    assert (said["capture"], said["kind"], said["state"]["name"]) == ("shop", "capture", "running")
    assert said["state"]["text"].startswith("running (process ")
    assert said["needs"]["shown"] == [
        {
            "text": "public.orders is set aside",
            "why": "TM-PG-024: public.orders is not there",
            "remedy": "Create the table again, or take it out of the capture file.",
        }
    ]
    assert said["needs"]["words"] == "needs you: 1"


def test_figures_are_in_the_words_of_status(capture: ShownCapture) -> None:
    found = figures(capture.asked())
    assert (found["lag"]["value"], found["lag"]["notes"]) == ("2 s", ["behind the source"])
    assert found["retained"]["value"] == "4.0 GB"
    assert found["retained"]["notes"] == [
        "its limit is 10.0 GB, at this rate in 2 h 0 min",
        "for slot shop (reserved, active)",
    ]
    assert found["retained"]["limit"]["share"] == "40 % of its limit"


def test_what_is_unknown_is_never_zero(capture: ShownCapture) -> None:
    capture.display.log(status_line(lag_seconds=None, retained_bytes=None, seconds_left=None))
    said = capture.asked()
    found = figures(said)
    assert (found["lag"]["value"], found["retained"]["value"]) == ("unknown", "unknown")
    assert said["backfills"]["note"] == "an unknown time left"
    capture.display.log(status_line(away_seconds=3.0, lag_seconds=0.0))
    said = capture.asked()
    assert (said["state"]["name"], figures(said)["lag"]["value"]) == ("waiting for the source", "unknown")


def test_a_capture_that_is_caught_up(capture: ShownCapture) -> None:
    capture.display.log(status_line(lag_seconds=0.0, caught_up=True, retained_limit=None))
    found = figures(capture.asked())
    assert (found["lag"]["value"], found["lag"]["notes"]) == ("0 s", ["caught up"])
    assert found["retained"]["notes"][0] == "without a limit" and "limit" not in found["retained"]


def test_tables_come_in_the_order_of_their_need(capture: ShownCapture) -> None:
    wait_until(lambda: capture.asked()["log"], 60, "the log was read")
    said = capture.asked()["tables"]
    assert [(row["name"], row["state"], row["percent"]) for row in said["shown"]] == [
        ("public.orders", "set aside", None),
        ("public.events", "scanning", 25.0),
        ("public.visits", "waiting", 0.0),
        (HOSTILE_SHOWN, "done", 100.0),
        ("public.customers", "done", 100.0),
        ("public.items", "not captured", None),
    ]
    scanning = said["shown"][1]
    assert (scanning["rows"], scanning["rate"], scanning["left"]) == ("250 of about 1,000", "125/s", "6 s")
    assert said["shown"][-1]["events"] == "2"
    assert {"state": "done", "count": "2"} in said["counts"]


def test_a_table_that_waits_between_two_chunks_stays_where_it_is(capture: ShownCapture) -> None:
    tables = {
        "public.a": {"rows_done": 0, "rows_estimated": 9, "state": "paused"},
        "public.z": {"rows_done": 5, "rows_estimated": 9, "state": "waiting", "rows_per_second": 7.5},
        "public.b": {"rows_done": 9, "done": True, "state": "done", "paused": True},
    }
    capture.display.log(status_line(tables))
    shown = [(row["name"], row["tone"], row["rate"]) for row in capture.asked()["tables"]["shown"]]
    assert shown[1:5] == [
        ("public.events", "active", "125/s"),
        ("public.z", "idle", "7.5/s"),
        ("public.a", "idle", ""),
        ("public.b", "idle", ""),
    ]
    assert {"state": "done; paused", "count": "1"} in capture.asked()["tables"]["counts"]


def test_an_error_of_a_table_is_told_once(capture: ShownCapture) -> None:
    capture.display.notice("warning", "it is set aside", code="TM-PG-024")
    assert capture.asked()["needs"]["count"] == 1
    capture.display.notice("warning", "something else", code="TM-PG-001")
    needs = [need["text"] for need in capture.asked()["needs"]["shown"]]
    assert needs == ["an error is not resolved: TM-PG-001", "public.orders is set aside"]


def test_tables_are_found_by_a_part_of_their_name_in_any_case(capture: ShownCapture) -> None:
    said = capture.asked(wanted="VENT")["tables"]
    assert [row["name"] for row in said["shown"]] == ["public.events"]
    assert said["more"] == ""
    assert capture.asked(wanted="no such name")["tables"]["shown"] == []


def test_of_thousands_of_tables_the_first_are_shown_and_the_others_counted() -> None:
    progress = {f"public.t{number}": {"rows_done": 0, "state": "waiting"} for number in range(5000)}
    progress["public.t4321"]["state"] = "failed"
    said = tables_json(table_rows(progress, {}), "")
    assert len(said["shown"]) == MOST_ROWS and said["shown"][0]["name"] == "public.t4321"
    assert said["more"] == f"and {5000 - MOST_ROWS:,} more: filter by name to see them"
    assert len(tables_json(table_rows(progress, {}), "t4321")["shown"]) == 1


def test_of_thousands_that_are_set_aside_some_are_named(capture: ShownCapture) -> None:
    aside = {f"public.t{number}": {"rows_done": 0, "state": "set_aside"} for number in range(3000)}
    capture.display.log(status_line(aside))
    said = capture.asked()["needs"]
    assert said["count"] == 3001 and len(said["shown"]) == MOST_NEEDS
    assert said["more"] == f"and {3001 - MOST_NEEDS:,} more: tidemark status has all"


def test_bad_values_and_what_a_backfill_waits_for_are_told(capture: ShownCapture) -> None:
    tables = {
        "public.customers": {"rows_done": 1, "done": True, "state": "done", "bad_values": {"null": 2, "quarantine": 1}},
        "public.visits": {"rows_done": 0, "state": "waiting", "waits_for": "transaction 77"},
    }
    capture.display.log(status_line(tables))
    why = {row["name"]: row["why"] for row in capture.asked()["tables"]["shown"]}
    assert why["public.customers"] == "3 values that no document could represent"
    assert why["public.visits"] == "waits for transaction 77"


def test_a_reread_is_shown_with_its_commands(capture: ShownCapture) -> None:
    cause = {"name": "column_type", "columns": ["total"], "at": "0/1A", "time": "2026-01-01T00:00:00+00:00"}
    table = {"rows_done": 0, "state": "done", "done": True, "reread": {"causes": [cause], "put_off": True}}
    capture.display.log(status_line({"public.customers": table}))
    (reread,) = capture.asked()["rereads"]
    assert (reread["name"], reread["state"]) == ("public.customers", "put off")
    assert reread["causes"][0].startswith("column_type (total) at 0/1A, ")
    assert any(line.startswith("to begin it: tidemark resume ") for line in reread["lines"])
    need = next(one for one in capture.asked()["needs"]["shown"] if one["text"].startswith("the reread"))
    assert "--keep" in need["remedy"] and need["why"] == "column_type (total) at 0/1A"


def test_errors_are_remembered_with_code_and_remedy(capture: ShownCapture) -> None:
    for _ in range(2):
        capture.display.notice("warning", "it failed", code="TM-PG-001", remedy="Look at it.")
    capture.display.log(LogLine(level="error", message="worse", fields={"code": "TM-PG-002", "remedy": "Look again."}))
    capture.display.notice("info", "no error", code="TM-PG-003")
    errors = [(one["code"], one["count"], one["remedy"]) for one in capture.asked()["errors"]]
    assert errors == [("TM-PG-002", "once", "Look again."), ("TM-PG-001", "2 times", "Look at it.")]


def test_the_oldest_error_is_forgotten_first() -> None:
    errors = RecentErrors(Recorder())
    for number in (*range(MOST), 0, MOST):
        errors.notice("error", f"it failed {number}", code="TM-PG-001")
    found = [error.message for error in errors.newest_first()]
    assert found[:2] == [f"it failed {MOST}", "it failed 0"] and len(found) == MOST and "it failed 1" not in found


def test_a_log_that_cannot_be_read_hides_nothing_else(tmp_path: Path) -> None:
    with shown(tmp_path) as capture:
        (tmp_path / "shop.log" / "tidemark.json").unlink()
        said = capture.asked()
    assert said["notes"][0].startswith("the change log: TM-LOG-001")
    assert said["tables"]["shown"][0]["name"] == "public.orders"


def test_samples_that_the_page_has_are_not_told_again(capture: ShownCapture) -> None:
    said = capture.asked(after=10**9)
    assert said["history"]["samples"] == []
    assert [chart["name"] for chart in said["history"]["charts"]] == ["lag", "rows", "retained"]


@pytest.mark.parametrize("query", ["", "after=-1", "after=x", "after=%FF", "after=" + "9" * 40, "after=²", "&&==&"])
def test_a_query_without_sense_asks_for_all(query: str) -> None:
    assert view_of(query).after == 0


def test_a_query_is_decoded() -> None:
    assert view_of("wanted=+a%2Fb%20&after=7&wanted=%3Cb%3E") == document.View("<b>", 7)


def test_all_who_look_at_once_are_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "FRESH_SECONDS", 3600.0)
    with shown(tmp_path) as capture:
        before = capture.asked()
        capture.display.log(status_line(lag_seconds=700.0))
        assert figures(capture.asked())["lag"] == figures(before)["lag"]


def test_no_text_has_control_characters(capture: ShownCapture) -> None:
    capture.display.notice("error", "a\x1b[2Jb\u202ec", code="TM-PG-001", remedy="d\x00e")
    _, _, body = ask(capture.port, "/page.json")
    assert "a\\x1b[2Jb\\u202ec" in json.loads(body)["errors"][0]["message"]
    assert not {"\x1b", "\u202e", "\x00"} & set(json.dumps(json.loads(body), ensure_ascii=False))
