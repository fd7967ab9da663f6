from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_sink.log_builder import Event, LogBuilder, schema
from tidemark.protocol.changelog import TableSchema
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.inferred_schema import InferredSchema

ITEMS = "public/items"


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """A log of ``public/items`` with the columns ``id`` and ``note``, and three events."""
    log = LogBuilder(tmp_path / "log", schema(id="bigint", note="string"))
    log.commit(*(Event("c", {"id": i}) for i in range(3)))
    return log


def then(log: LogBuilder, new: TableSchema, events: int = 1) -> None:
    """The log goes on under another schema."""
    log.change_schema(new)
    log.commit(*(Event("c", {}, table=new.collection) for _ in range(events)))


def inferred(log: LogBuilder, end: int | None = None) -> InferredSchema:
    return InferredSchema.of(FollowedLog(log.root), "public.items", 0, log.offset if end is None else end)


def departure(log: LogBuilder, of: InferredSchema, start: int = 0, *, resumed: bool = False) -> tuple[int, str] | None:
    found = of.departure(FollowedLog(log.root), ITEMS, start, log.offset, resumed=resumed)
    return (found.offset, found.what) if found else None


def test_it_is_the_newest_before_the_end(log: LogBuilder) -> None:
    then(log, schema(id="bigint", new="date"))

    assert inferred(log).own == {"id": "bigint", "new": "date"}
    assert inferred(log, 3).own == {"id": "bigint", "note": "string"}


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (schema(id="bigint", note="string", new="date"), "has the new column new;"),
        (schema(id="bigint"), "no longer has column note;"),
        (schema(id="bigint", note="bigint"), "has column note with type bigint, not string;"),
        (
            schema(id="string", name="string"),
            "new column name and no longer has column note and has column id with type string",
        ),
    ],
)
def test_later_events_of_other_columns_depart(log: LogBuilder, new: TableSchema, says: str) -> None:
    taken = inferred(log)
    then(log, schema(id="bigint", note="string"), 2)
    then(log, new)

    found = departure(log, taken)

    assert found
    assert found[0] == 5
    assert found[1].startswith("from offset 5 on, public.items ")
    assert says in found[1]


def test_what_is_no_change_of_columns_is_none(log: LogBuilder) -> None:
    taken = inferred(log)
    then(log, schema(key=("note",), id="bigint", note="string"))
    then(log, schema("public/others", id="bigint", other="date"))

    assert departure(log, taken) is None


def test_earlier_events_depart_only_where_a_resumed_query_would_lose_a_column(log: LogBuilder) -> None:
    then(log, schema(id="bigint", new="date"))
    taken = inferred(log)

    assert departure(log, taken) is None
    assert departure(log, taken, 3, resumed=True) is None
    found = departure(log, taken, 1, resumed=True)
    assert found
    assert found[0] == 1
    assert found[1].startswith("from offset 1 on, public.items has column note, which was dropped later")
