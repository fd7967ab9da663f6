"""What a batch of the log tells of tables: each thing once, in the order of the log."""

from __future__ import annotations

from tidemark.captures.contract.causes import CONFIGURED, KEY
from tidemark.captures.contract.log import LogBatch
from tidemark.captures.contract.table_events import ChangesPassed, ColumnsChanged, RowsAffected, SetAside, WentAway
from tidemark.protocol.errors import SourceError

FIRST, SECOND = (SourceError("TM-MY-007", text) for text in ("it is gone", "something else has its name"))


def test_an_event_that_comes_with_every_row_is_told_once_where_it_came_first() -> None:
    batch = LogBatch()
    for event in (ChangesPassed(1), ColumnsChanged(1), ChangesPassed(0), ColumnsChanged(1), ChangesPassed(1)):
        batch.tell(event)
    assert batch.events == [ChangesPassed(1), ColumnsChanged(1), ChangesPassed(0)]
    assert batch.says_something


def test_a_table_that_is_set_aside_has_its_last_error_in_its_first_place() -> None:
    batch = LogBatch(events=[WentAway(1, FIRST)])
    batch.set_aside(1, FIRST)
    batch.set_aside(0, FIRST)
    batch.set_aside(1, SECOND)
    assert batch.events == [WentAway(1, FIRST), SetAside(1, SECOND), SetAside(0, FIRST)]


def test_only_a_cause_that_empties_a_table_does_so() -> None:
    batch = LogBatch()
    batch.tell(RowsAffected(0, CONFIGURED))
    batch.tell(RowsAffected(1, KEY))
    assert not batch.empties(0) and batch.empties(1)
