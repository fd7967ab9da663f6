"""Which generation events belong to, by what a connector announces and how its schemas change."""

from __future__ import annotations

from typing import Any

from tests.runtime.capture_folder import OPENED, CaptureFolder
from tests.runtime.logged_events import events
from tests.runtime.scripted_sessions import RARELY, run_session
from tests.runtime.test_foreign_connectors import captured, sourced

BEGIN: dict[str, Any] = {"message": {"backfillBegin": {}}}
COMPLETE: dict[str, Any] = {"message": {"backfillComplete": {}}}
TRUNCATE: dict[str, Any] = {"message": {"captured": {"doc": {"_meta": {"op": "t"}}}}}
INTEGER, TEXT, DAY = {"type": "integer"}, {"type": "string"}, {"type": "string", "format": "date"}


def checkpoint(number: int) -> dict[str, Any]:
    return {"checkpoint": {"n": number}}


def schema(**properties: Any) -> dict[str, Any]:
    return sourced(complete=True, id=INTEGER, **properties)


def generations(folder: CaptureFolder) -> list[tuple[int, int, int | None]]:
    """Number, begin and end of the backfill of those that the log still knows."""
    return [(one.number, one.begin, one.whole) for one in folder.log.summary().generations["public/t"]]


def of_segments(folder: CaptureFolder) -> list[int | None]:
    return [segment.generation for commit in folder.log.commits() for segment in commit.segments]


def test_a_connector_that_announces_nothing_has_one_that_is_whole(folder: CaptureFolder) -> None:
    folder.script([OPENED, captured(id=1), checkpoint(1), captured(id=2), checkpoint(2)])
    run_session(folder)
    assert generations(folder) == [(1, 0, 0)]


def test_the_first_is_whole_when_its_backfill_is_over(folder: CaptureFolder) -> None:
    folder.script(
        [OPENED, schema(), BEGIN, captured(id=1), checkpoint(1)],
        [OPENED, schema(), captured(id=2), COMPLETE, checkpoint(2)],
    )
    run_session(folder)
    assert generations(folder) == [(1, 0, None)]
    run_session(folder)
    assert generations(folder) == [(1, 0, 2)]
    assert [event["_op"] for event in events(folder.log, "public/t")] == ["c", "c"]


def test_a_table_that_is_read_again_has_another_and_the_last_whole_one_is_shown(folder: CaptureFolder) -> None:
    folder.script(
        [OPENED, schema(), BEGIN, captured(id=1), COMPLETE, BEGIN, captured(id=2), checkpoint(1)],
        [OPENED, schema(), BEGIN, captured(id=3), checkpoint(2)],
        [OPENED, schema(), captured(id=4), COMPLETE, checkpoint(3)],
    )
    run_session(folder, due=RARELY)
    assert generations(folder) == [(1, 0, 1), (2, 1, None)]
    run_session(folder)
    assert generations(folder) == [(1, 0, 1), (2, 1, None), (3, 3, None)]
    shown = folder.log.summary().shown("public/t")
    assert shown is not None and shown.number == 1
    run_session(folder)
    assert generations(folder) == [(3, 3, 6)]
    assert of_segments(folder) == [1, 2, 3, 3]
    assert [event["_op"] for event in events(folder.log, "public/t")] == ["c", "t", "c", "t", "c", "c"]


def test_a_truncate_makes_one_whole(folder: CaptureFolder) -> None:
    folder.script(
        [OPENED, schema(), BEGIN, captured(id=1), COMPLETE, BEGIN, captured(id=2), checkpoint(1)],
        [OPENED, schema(), captured(id=3), TRUNCATE, captured(id=4), checkpoint(2)],
    )
    run_session(folder, due=RARELY)
    run_session(folder)
    assert generations(folder) == [(2, 1, 5)]


def test_events_that_cannot_follow_are_of_none_until_the_next_begins(folder: CaptureFolder) -> None:
    """Also when the column is as it was before: events of the meantime were left out."""
    folder.script(
        [OPENED, schema(c=TEXT), BEGIN, captured(id=1, c="a"), COMPLETE, checkpoint(1)],
        [OPENED, schema(c=DAY), captured(id=2, c="2026-01-31"), checkpoint(2)],
        [OPENED, schema(c=TEXT), captured(id=3, c="c"), checkpoint(3)],
        [OPENED, schema(c=TEXT), BEGIN, captured(id=4, c="d"), COMPLETE, checkpoint(4)],
    )
    for expected in ([(1, 0, 1)], [(1, 0, 1)], [(1, 0, 1)], [(2, 3, 5)]):
        run_session(folder)
        assert generations(folder) == expected
    assert of_segments(folder) == [1, None, None, 2]


def test_one_that_begins_in_the_commit_of_events_of_none_goes_on_in_the_next_session(folder: CaptureFolder) -> None:
    folder.script(
        [OPENED, schema(c=TEXT), BEGIN, captured(id=1, c="a"), COMPLETE, checkpoint(1)],
        [OPENED, schema(c=DAY), captured(id=2, c="2026-01-31"), BEGIN, checkpoint(2)],
        [OPENED, schema(c=DAY), captured(id=1, c="2026-01-30"), COMPLETE, checkpoint(3)],
    )
    for expected in ([(1, 0, 1)], [(1, 0, 1), (2, 2, None)], [(2, 2, 4)]):
        run_session(folder, due=RARELY)
        assert generations(folder) == expected
    assert of_segments(folder) == [1, None, 2, 2]


def test_one_whose_backfill_ends_with_events_of_none_is_not_whole(folder: CaptureFolder) -> None:
    folder.script(
        [OPENED, schema(c=TEXT), BEGIN, captured(id=1, c="a"), COMPLETE, checkpoint(1)],
        [OPENED, schema(c=TEXT), BEGIN, schema(c=DAY), captured(id=1, c="2026-01-31"), COMPLETE, checkpoint(2)],
        [OPENED, schema(c=DAY), COMPLETE, checkpoint(3)],
    )
    for expected in ([(1, 0, 1)], [(1, 0, 1), (2, 1, None)], [(1, 0, 1), (2, 1, None)]):
        run_session(folder, due=RARELY)
        assert generations(folder) == expected
    assert of_segments(folder) == [1, 2, None]


def test_a_type_that_holds_all_old_values_begins_none(folder: CaptureFolder) -> None:
    folder.script(
        [OPENED, schema(c=INTEGER), BEGIN, captured(id=1, c=1), COMPLETE, checkpoint(1)],
        [OPENED, schema(c=TEXT, more=DAY), captured(id=2, c="x"), checkpoint(2)],
    )
    run_session(folder)
    run_session(folder)
    assert of_segments(folder) == [1, 1]


def test_each_commit_has_the_hash_of_the_one_before(folder: CaptureFolder) -> None:
    folder.script([OPENED, captured(id=1), checkpoint(1)], [OPENED, captured(id=2), checkpoint(2)])
    run_session(folder)
    run_session(folder)
    log = folder.log
    commits = list(log.commits())
    assert [commit.previous for commit in commits] == ["", *(log.digest(one.number) for one in commits[:-1])]
    assert len({commit.writer for commit in commits}) == 2
