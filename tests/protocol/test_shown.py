"""Which generations make the rows of a table."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.protocol.changelog import Column, Commit, Generation, KnownGeneration, Segment, Summary, TableSchema
from tidemark.protocol.changelog.columns.evolution import fits
from tidemark.protocol.changelog.models import CollectionTotals
from tidemark.protocol.changelog.shown import newest_alone, shown
from tidemark.protocol.changelog.summaries import advance

TABLE = "public/t"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def table(type_: str = "string", key: str = "id") -> TableSchema:
    return TableSchema(
        collection=TABLE, columns=[Column(name="id", type="bigint"), Column(name="c", type=type_)], key=[key]
    )


TEXT, NUMBER, OTHER_KEY = table(), table("bigint"), table(key="c")


def known(number: int, *schemas: TableSchema, whole: bool = False) -> KnownGeneration:
    begin = 100 * number
    prints = [one.fingerprint for one in schemas]
    return KnownGeneration(
        collection=TABLE, number=number, begin=begin, whole=begin + 50 if whole else None, fingerprints=prints
    )


def summary(*generations: KnownGeneration) -> Summary:
    schemas = {one.fingerprint: one for one in (TEXT, NUMBER, OTHER_KEY)}
    return Summary(
        number=9,
        epoch=1,
        time=EPOCH,
        next_offset=1000,
        schemas=schemas,
        totals={TABLE: CollectionTotals(events=1, fingerprint=TEXT.fingerprint)},
        generations={TABLE: list(generations)},
    )


def segment(generation: int | None, first: int, last: int, truncated_at: int | None = None) -> Segment:
    return Segment(
        collection=TABLE,
        path="data",
        rows=1 + last - first,
        size=1,
        uncompressed=1,
        first_offset=first,
        last_offset=last,
        fingerprint=TEXT.fingerprint,
        generation=generation,
        truncated_at=truncated_at,
    )


@pytest.mark.parametrize(
    ("generations", "numbers"),
    [
        ([known(1, TEXT, whole=True)], [1]),
        ([known(1, TEXT, whole=True), known(2, TEXT)], [1, 2]),
        ([known(1, NUMBER, whole=True), known(2, NUMBER, TEXT)], [1, 2]),
        ([known(1, TEXT, whole=True), known(2, NUMBER)], [1]),
        ([known(1, TEXT, whole=True), known(2, OTHER_KEY)], [1]),
        # What fits at first may have other columns later.
        ([known(1, TEXT, whole=True), known(2, TEXT, NUMBER)], [1]),
        ([known(1, TEXT, whole=True), known(2, TEXT), known(3, TEXT)], [1, 2, 3]),
        ([known(1, NUMBER, whole=True), known(2, TEXT), known(3, NUMBER)], [1, 2]),
        ([known(1, TEXT, whole=True), known(2, NUMBER), known(3, TEXT)], [1, 3]),
        # While none ever was whole, rows that do not fit are gone.
        ([known(1, TEXT), known(2, TEXT)], [1, 2]),
        ([known(1, TEXT), known(2, NUMBER)], [2]),
        ([known(1, TEXT), known(2, NUMBER), known(3, NUMBER)], [2, 3]),
    ],
)
def test_a_generation_is_laid_over_those_that_fit(generations: list[KnownGeneration], numbers: list[int]) -> None:
    log = summary(*generations)
    found = shown(log, TABLE)
    assert found is not None
    assert [one.number for one in found.generations] == numbers
    assert found.over == (numbers[0] if len(numbers) > 1 else 0)
    alone = newest_alone(log, TABLE)
    assert alone is not None
    assert [one.number for one in alone.generations] == [generations[-1].number]
    assert shown(log, "public/unknown") is None
    assert newest_alone(log, "public/unknown") is None


def test_what_begins_a_generation_that_is_laid_over_another_empties_nothing() -> None:
    found = shown(summary(known(1, TEXT, whole=True), known(2, TEXT)), TABLE)
    assert found is not None
    alone, with_rows = segment(2, 200, 200, 200), segment(2, 200, 210, 200)
    later, older, of_none = segment(2, 211, 220, 215), segment(1, 110, 120, 112), segment(None, 130, 140)
    assert found.events([older, of_none, alone, with_rows, later]) == (older, with_rows, later)
    assert list(map(found.truncated_at, [older, with_rows, later])) == [112, None, 215]
    whole = shown(summary(known(2, TEXT, whole=True)), TABLE)
    assert whole is not None
    assert whole.events([older, alone, later]) == (alone, later)
    assert whole.truncated_at(alone) == 200


def test_events_count_up_to_the_commit_in_which_one_belongs_to_none() -> None:
    limited = known(1, TEXT, whole=True).model_copy(update={"ended": 130, "shown_until": 120})
    found = shown(summary(limited, known(2, TEXT)), TABLE)
    assert found is not None
    before, same_commit, later = segment(1, 110, 119), segment(1, 120, 129), segment(2, 211, 220)
    assert found.events([before, same_commit, later]) == (before, later)


def told(**ids: str) -> TableSchema:
    """A schema of columns with ids."""
    own = [Column(name=name, type="string", id=id) for name, id in ids.items()]
    return TableSchema(collection=TABLE, columns=[Column(name="id", type="bigint", id="1"), *own], key=["id"])


AB = told(a="2", b="3")


@pytest.mark.parametrize(
    ("before", "after", "fit"),
    [
        pytest.param([AB], [AB], True, id="as it was"),
        pytest.param([AB], [told(a="2", b="3", c="4")], True, id="with another column"),
        pytest.param([AB], [told(a="2")], True, id="without a column"),
        pytest.param([AB], [told(b="3", a="2")], True, id="in another order"),
        pytest.param([AB], [TEXT], True, id="without ids"),
        pytest.param([AB], [told(b="2", a="3")], False, id="created otherwise"),
        pytest.param([AB], [told(a="2", x="3")], False, id="renamed meanwhile"),
        pytest.param([AB, told(a="2")], [told(a="2", x="3")], False, id="the id of one that had gone"),
        pytest.param([AB, told(a="2")], [told(a="2"), told(a="2", x="3")], False, id="that id later"),
        pytest.param([AB], [told(a="2", b="4")], False, id="dropped and added again"),
        pytest.param([AB, told(a="2", x="3")], [told(a="2", x="3")], True, id="renamed before"),
        pytest.param([AB], [AB, told(a="2", x="3")], True, id="renamed after"),
        pytest.param([], [AB], True, id="over no event"),
        pytest.param([AB], [], True, id="without an event"),
    ],
)
def test_rows_fit_where_ids_mean_the_same_columns(
    before: list[TableSchema], after: list[TableSchema], fit: bool
) -> None:
    assert fits(before, after) is fit


@given(st.lists(st.sampled_from([AB, told(b="2", a="3"), told(a="2"), told(a="2", x="3")]), min_size=1, max_size=6))
def test_what_is_laid_over_rows_stays_over_them_whatever_names_its_columns_get(schemas: list[TableSchema]) -> None:
    log = Summary(number=-1, epoch=1, time=EPOCH, next_offset=0)
    began = Generation(collection=TABLE, number=2, begin=1, why="a test")
    for number, schema in enumerate([AB, *schemas]):
        commit = Commit(
            number=number,
            epoch=1,
            time=EPOCH,
            first_offset=number,
            next_offset=number + 1,
            schemas={schema.fingerprint: schema},
            generations=[began] if number == 1 else [],
            segments=[
                segment(2 if number else 1, number, number).model_copy(update={"fingerprint": schema.fingerprint})
            ],
        )
        log = advance(log, commit)
        found = shown(log, TABLE)
        assert found is not None
        laid_over = number > 0 and schemas[0] in (AB, told(a="2"))
        assert found.over == (1 if laid_over else 0)


@pytest.mark.parametrize(
    ("generation", "over", "goes_on", "below"),
    [
        (2, 0, True, 0),
        (2, 1, True, 200),
        (1, 0, False, 0),
        (3, 1, True, 200),
        (3, 2, True, 0),
        (3, 0, False, 0),
        # Later rows than are shown: they did not come to fit.
        (4, 2, True, 0),
        (4, 0, False, 0),
    ],
)
def test_a_table_goes_on_unless_it_lacks_rows(generation: int, over: int, goes_on: bool, below: int) -> None:
    found = shown(summary(known(2, TEXT, whole=True), known(3, TEXT)), TABLE)
    assert found is not None
    assert found.goes_on_from(generation, over) is goes_on
    assert found.stale_below(generation, over) == below
