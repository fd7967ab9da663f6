"""Which changes of a status are told, and what is said of them."""

from __future__ import annotations

from typing import Any, get_args

from tests.house.files import ROOT
from tidemark.protocol.capture_file.notify_entry import Happening
from tidemark.protocol.errors import ConnectorError
from tidemark.runtime.notifications.changes import AWAY_SECONDS, Changes, Notification, failure


def report(lag: float | None = 0.0, away: float | None = None, /, **states: str) -> dict[str, Any]:
    """A status in which tables have states."""
    wrong = {"error": "TM-PG-007: it is gone", "remedy": "Create it."}
    right = {"error": None, "remedy": None}
    tables = {
        name: {"state": state, "rows_done": 7, **(wrong if state == "set_aside" else right)}
        for name, state in states.items()
    }
    return {"tables": tables, "lag_seconds": lag, "away_seconds": away}


def told(changes: Changes, now: dict[str, Any]) -> list[Notification]:
    return list(changes.since(now))


def test_each_state_is_told_once_and_tables_together() -> None:
    changes = Changes(None, None)
    assert told(changes, report(t="waiting", u="scanning", v="waiting")) == []
    (done,) = told(changes, report(t="done", u="done", v="scanning"))
    assert (done.event, [table["table"] for table in done.more["tables"]]) == ("backfill_done", ["t", "u"])
    assert done.more["tables"][0] == {"table": "t", "rows": 7}
    assert told(changes, report(t="done", u="done", v="scanning")) == []
    (aside,) = told(changes, report(t="set_aside", u="done", v="scanning"))
    expected = {"table": "t", "error": "TM-PG-007: it is gone", "remedy": "Create it."}
    assert (aside.event, aside.more["tables"]) == ("table_set_aside", [expected])
    again, whole = sorted(told(changes, report(t="done", u="done", v="done")), key=lambda each: each.event)[::-1]
    assert (again.event, again.more["tables"]) == ("table_captured_again", [{"table": "t"}])
    assert [table["table"] for table in whole.more["tables"]] == ["t", "v"]


def test_a_generation_is_told_when_it_is_shown() -> None:
    def generations(**numbers: int | None) -> dict[str, Any]:
        tables = {name: {"state": "scanning", "rows_done": 7, "generation": one} for name, one in numbers.items()}
        return {**report(), "tables": tables}

    changes = Changes(generations(t=5), None)
    assert told(changes, generations(t=None, u=None, v=1)) == []  # The first is that of the backfill.
    (shown,) = told(changes, generations(t=6, u=2, v=1))
    assert (shown.event, shown.more["tables"]) == (
        "generation_shown",
        [{"table": "t", "generation": 6}, {"table": "u", "generation": 2}],
    )
    assert told(changes, generations(t=6, u=2, v=1)) == []
    (shown,) = told(changes, generations(t=7, u=2, v=1))
    assert shown.more["tables"] == [{"table": "t", "generation": 7}]
    assert shown.text == "a new generation of t is shown"


def test_a_moment_away_is_no_news() -> None:
    changes = Changes(report(t="done", u="set_aside"), None)
    assert told(changes, report(t="away", u="set_aside")) == []
    assert told(changes, report(t="done", u="away")) == []
    assert told(changes, report(t="done", u="set_aside")) == []


def test_what_the_run_before_has_said_is_not_told_again() -> None:
    assert told(Changes(report(t="done", u="set_aside"), None), report(t="done", u="set_aside")) == []
    new = told(Changes(None, None), report(t="done", u="set_aside"))
    assert [each.event for each in new] == ["backfill_done", "table_set_aside"]
    # Tables of a connector that tells no states, and the status of a run that had none.
    assert told(Changes({"tables": {"t": {"events": 1}}}, None), {**report(), "tables": {"t": {"events": 2}}}) == []
    assert told(Changes({"pid": 1}, None), report()) == []


def test_the_lag() -> None:
    changes = Changes(None, 10)
    assert told(changes, report(10.0)) == []
    (over,) = told(changes, report(10.5))
    assert (over.event, over.more) == ("lag_over", {"lag_seconds": 10.5, "limit_seconds": 10})
    assert told(changes, report(99.0)) == told(changes, report(None)) == []
    (within,) = told(changes, report(1.0))
    assert within.event == "lag_within"
    assert told(Changes(None, None), report(1e9)) == []


def test_the_source() -> None:
    changes = Changes(None, None)
    assert told(changes, report(0.0, AWAY_SECONDS - 1)) == []
    (away,) = told(changes, report(0.0, AWAY_SECONDS))
    assert (away.event, away.more) == ("source_away", {"away_seconds": AWAY_SECONDS})
    assert told(changes, report(0.0, AWAY_SECONDS + 1)) == []
    (back,) = told(changes, report())
    assert back.event == "source_back"
    assert told(changes, report()) == []


def test_many_tables_make_a_short_text_and_a_whole_list() -> None:
    (done,) = told(Changes(None, None), report(**{f"t{number}": "done" for number in range(50)}))
    assert done.text == "the backfill of t0, t1, t2 and 47 more is done"
    assert len(done.more["tables"]) == 50


def test_a_failure() -> None:
    payload = failure(ConnectorError("TM-RUN-010", "no slot", remedy="Make one.")).payload("shop")
    assert payload["text"] == "shop: the capture failed with TM-RUN-010: no slot"
    assert [payload[name] for name in ("event", "code", "message", "remedy")] == [
        "capture_failed",
        "TM-RUN-010",
        "no slot",
        "Make one.",
    ]


def test_the_page_has_every_event() -> None:
    page = (ROOT / "docs/notifications.md").read_text()
    rows = [line.split("|")[1].strip().strip("`") for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if row != "event"] == list(get_args(Happening))
