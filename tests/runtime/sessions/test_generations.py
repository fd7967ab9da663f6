"""Which generation events belong to, by what a connector announces and how its schemas change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder
from tests.runtime.logged_events import events
from tests.runtime.scripted_sessions import RARELY, run_session
from tests.runtime.test_foreign_connectors import captured, sourced
from tidemark.protocol.changelog.shown import shown
from tidemark.protocol.messages import COLUMN_FILL, COLUMN_ID

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


def test_a_table_that_is_read_again_has_another_laid_over_the_last_whole_one(folder: CaptureFolder) -> None:
    folder.script(
        [OPENED, schema(), BEGIN, captured(id=1), COMPLETE, BEGIN, captured(id=2), checkpoint(1)],
        [OPENED, schema(), BEGIN, captured(id=3), checkpoint(2)],
        [OPENED, schema(), captured(id=4), COMPLETE, checkpoint(3)],
    )
    run_session(folder, due=RARELY)
    assert generations(folder) == [(1, 0, 1), (2, 1, None)]
    run_session(folder)
    assert generations(folder) == [(1, 0, 1), (2, 1, None), (3, 3, None)]
    found = shown(folder.log.summary(), "public/t")
    assert found is not None and [one.number for one in found.generations] == [1, 2, 3]
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


def test_a_schema_that_no_event_came_under_binds_none(folder: CaptureFolder) -> None:
    """So a table that changes before its first row is not read again."""
    row = captured(id=1, c="2026-01-31")
    folder.script([OPENED, schema(c=TEXT), BEGIN, schema(c=DAY), row, COMPLETE, checkpoint(1)])
    run_session(folder)
    assert generations(folder) == [(1, 0, 1)]
    assert of_segments(folder) == [1]


def test_a_constant_that_its_column_cannot_hold_is_of_none_in_a_later_session_too(folder: CaptureFolder) -> None:
    """The rows must be read: the log does not know what they have in the column, which is not null."""
    id_, wrong = {**INTEGER, COLUMN_ID: "1"}, {**DAY, COLUMN_ID: "2", COLUMN_FILL: "soon"}
    before, after = sourced(complete=True, id=id_), sourced(complete=True, id=id_, c=wrong)
    folder.script(
        [OPENED, before, BEGIN, captured(id=1), COMPLETE, checkpoint(1), after, checkpoint(2)],
        [OPENED, after, captured(id=2, c="2026-01-31"), checkpoint(3)],
        [OPENED, after, BEGIN, captured(id=1, c="2026-01-30"), COMPLETE, checkpoint(4)],
    )
    for expected in ([(1, 0, 1)], [(1, 0, 1)], [(2, 2, 4)]):
        run_session(folder)
        assert generations(folder) == expected
    assert of_segments(folder) == [1, None, 2]


@pytest.mark.parametrize("between", [[checkpoint(2)], []], ids=["in the log", "overtaken"])
def test_a_column_keeps_its_constant_while_nobody_knows_which_one_it_is(
    folder: CaptureFolder, between: list[dict[str, Any]]
) -> None:
    id_, known = {**INTEGER, COLUMN_ID: "1"}, {**INTEGER, COLUMN_ID: "2", COLUMN_FILL: 7}
    before, after = sourced(complete=True, id=id_), sourced(complete=True, id=id_, c=known)
    unknown = sourced(complete=True, id=id_, c=INTEGER)
    folder.script(
        [OPENED, before, BEGIN, captured(id=1), COMPLETE, checkpoint(1), after, *between, unknown, checkpoint(3)],
        [OPENED, unknown, captured(id=2, c=8), checkpoint(4)],
    )
    for _ in range(2):
        run_session(folder)
        summary = folder.log.summary()
        newest = summary.schemas[summary.totals["public/t"].fingerprint]
        told = [(column.name, column.id, column.fill) for column in newest.columns]
        assert told == [("id", "1", None), ("c", None, 7)]


def test_a_column_that_nobody_knew_for_a_while_is_not_a_later_one_of_its_name(folder: CaptureFolder) -> None:
    """Whether the connector has said so in this session, or in an earlier one."""
    one, other = {**INTEGER, COLUMN_ID: "1"}, {**DAY, COLUMN_ID: "2"}
    schemas = [
        sourced(complete=True, id=INTEGER, b=one),
        sourced(complete=True, id=INTEGER, b=INTEGER),
        sourced(complete=True, id=INTEGER, b=one),
        sourced(complete=True, id=INTEGER, c=one, b=other),
    ]
    rows = [*(captured(id=number, b=number) for number in (1, 2, 3)), captured(id=4, b="2026-01-31", c=4)]
    said = [step for place in range(4) for step in (schemas[place], rows[place], checkpoint(place))]
    folder.script([OPENED, BEGIN, *said])
    run_session(folder)
    assert of_segments(folder) == [1, 1, 1, 1]


def test_each_commit_has_the_hash_of_the_one_before(folder: CaptureFolder) -> None:
    folder.script([OPENED, captured(id=1), checkpoint(1)], [OPENED, captured(id=2), checkpoint(2)])
    run_session(folder)
    run_session(folder)
    log = folder.log
    commits = list(log.commits())
    assert [commit.previous for commit in commits] == ["", *(log.digest(one.number) for one in commits[:-1])]
    assert len({commit.writer for commit in commits}) == 2


def test_columns_tell_by_their_ids_whether_events_can_follow(folder: CaptureFolder) -> None:
    """A type may be any other if the column is another, and a name may be another if the column is the same."""
    folder.script(
        [OPENED, schema(c={**TEXT, "x-column": "2"}), BEGIN, captured(id=1, c="a"), COMPLETE, checkpoint(1)],
        [OPENED, schema(c={**INTEGER, "x-column": "3"}), captured(id=2, c=7), checkpoint(2)],
        [OPENED, schema(d={**INTEGER, "x-column": "3"}), captured(id=3, d=8), checkpoint(3)],
        [OPENED, schema(d={**DAY, "x-column": "3"}), captured(id=4, d="2026-01-31"), checkpoint(4)],
    )
    for _ in range(4):
        run_session(folder)
    assert of_segments(folder) == [1, 1, 1, None]


def test_a_key_of_another_column_begins_another(folder: CaptureFolder) -> None:
    folder.script(
        [
            OPENED,
            sourced(complete=True, id={**INTEGER, "x-column": "1"}),
            BEGIN,
            captured(id=1),
            COMPLETE,
            checkpoint(1),
        ],
        [OPENED, sourced(complete=True, id={**INTEGER, "x-column": "2"}), captured(id=1), checkpoint(2)],
    )
    run_session(folder)
    run_session(folder)
    assert of_segments(folder) == [1, None]


def newest(folder: CaptureFolder) -> dict[str, tuple[str | None, Any]]:
    """Identity and fill of each column that the table has by now."""
    summary = folder.log.summary()
    columns = summary.schemas[summary.totals["public/t"].fingerprint].columns
    found = shown(summary, "public/t")
    assert found is not None
    assert found.schemas[-1].fingerprint == summary.totals["public/t"].fingerprint
    return {column.name: (column.id, column.fill) for column in columns}


def test_a_change_that_no_event_follows_is_in_the_log(folder: CaptureFolder) -> None:
    first, second = {**TEXT, "x-column": "2"}, {"type": "string", "format": "number", "x-precision": 5, "x-scale": 2}
    filled = {**second, "x-column": "3", "x-fill": "1.50"}
    folder.script(
        [
            OPENED,
            schema(c=first),
            BEGIN,
            captured(id=1, c="a"),
            COMPLETE,
            checkpoint(1),
            schema(d=first),
            checkpoint(2),
        ],
        [OPENED, schema(d=first, more=filled), checkpoint(3)],
        [OPENED, schema(d=first), checkpoint(4), schema(d=first, more=filled), checkpoint(5)],
        [OPENED, schema(d=first, more={**second, "x-column": "3"}), captured(id=2, d="b", more="2.25"), checkpoint(6)],
    )
    run_session(folder)
    assert newest(folder) == {"id": (None, None), "d": ("2", None)}
    run_session(folder)
    assert "more" not in newest(folder)  # At the start of a session the schema may be ahead of the log.
    run_session(folder)
    after = {"id": (None, None), "d": ("2", None), "more": ("3", "1.50")}
    assert newest(folder) == after
    run_session(folder)
    assert newest(folder) == after  # The log remembers what the first schema said.
    assert of_segments(folder) == [1, 1]


def test_a_fill_that_its_column_cannot_hold_has_the_table_read_again(folder: CaptureFolder) -> None:
    wrong = {**DAY, "x-column": "3", "x-fill": "no day"}
    folder.script(
        [OPENED, schema(), BEGIN, captured(id=1), COMPLETE, checkpoint(1)],
        [OPENED, schema(c=wrong), captured(id=2, c="2026-01-31"), checkpoint(2)],
        [OPENED, schema(c=wrong), BEGIN, captured(id=2, c="2026-01-31"), COMPLETE, checkpoint(3)],
    )
    for _ in range(3):
        run_session(folder)
    assert of_segments(folder) == [1, None, 2]


def test_a_change_that_another_one_follows_at_once_is_not_the_newest(folder: CaptureFolder) -> None:
    first, other = {**TEXT, "x-column": "2"}, {**DAY, "x-column": "2"}
    folder.script(
        [
            *(OPENED, schema(c=first), BEGIN, captured(id=1, c="a"), COMPLETE, checkpoint(1)),
            *(schema(d=first), schema(d=other), captured(id=2, d="2026-01-31"), checkpoint(2)),
        ]
    )
    run_session(folder, due=RARELY)
    summary = folder.log.summary()
    assert [column.type for column in summary.schemas[summary.totals["public/t"].fingerprint].columns] == [
        "bigint",
        "date",
    ]
    assert of_segments(folder) == [1, None]
