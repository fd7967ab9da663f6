"""The columns of a Relation message, by a model of what ALTERs do: what counts as sure is right."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import event, given
from hypothesis import strategies as st

from tidemark.captures.postgres.tables.noted_table import NotedColumn, NotedTable
from tidemark.captures.postgres.tables_that_change.column_identities import (
    CatalogColumn,
    CatalogColumns,
    identities,
)

TEXT, VARCHAR, INT, INET, CIDR, OWN = 25, 1043, 23, 869, 650, 16400
WITHOUT_A_REWRITE = {TEXT: VARCHAR, VARCHAR: TEXT, CIDR: INET, INET: OWN, OWN: INET}
NAMES = "abcd"


def _computed(number: int) -> CatalogColumn:
    return CatalogColumn(number, f"g{number}", INT, -1, "0")


@dataclass
class Modelled:
    """A table. Any other type than these writes all rows anew, which is seen otherwise."""

    columns: dict[int, CatalogColumn] = field(default_factory=dict)
    generated: set[int] = field(default_factory=set)
    attributes: int = 0
    written: int = 0

    def copy(self) -> Modelled:
        return replace(self, columns=dict(self.columns), generated=set(self.generated))

    def step(self, kind: str, which: int, name: str, of: int) -> None:
        self.written += 1
        taken = {column.name for column in self.columns.values()}
        numbers = sorted(self.columns)
        if kind == "add" and name not in taken:
            self.attributes += 1
            self.columns[self.attributes] = CatalogColumn(self.attributes, name, of, -1, str(self.written))
        elif kind == "generate":
            self.attributes += 1
            self.generated.add(self.attributes)
        elif numbers:
            number = numbers[which % len(numbers)]
            column = self.columns[number]._replace(written=str(self.written))
            if kind == "drop":
                del self.columns[number]
            elif kind == "rename" and name not in taken:
                self.columns[number] = column._replace(name=name)
            elif kind == "retype":
                self.columns[number] = column._replace(type=WITHOUT_A_REWRITE.get(column.type, column.type))
            elif kind == "touch":
                self.columns[number] = column

    @property
    def present(self) -> tuple[CatalogColumn, ...]:
        return tuple(self.columns[number] for number in sorted(self.columns))

    def now(self) -> CatalogColumns:
        return CatalogColumns(self.present, tuple(map(_computed, sorted(self.generated))), self.attributes)

    def noted(self) -> NotedTable:
        columns = {str(c.number): NotedColumn(c.name, c.type, c.typmod, "", c.written, ()) for c in self.present}
        generated = {str(number): NotedColumn(f"g{number}", INT, -1, "generated", "0", ()) for number in self.generated}
        return NotedTable(attributes=self.attributes, columns={**generated, **columns})


KINDS = ["add", "add", "drop", "rename", "rename", "retype", "touch", "generate"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS), st.integers(0, 3), st.sampled_from(NAMES), st.sampled_from([TEXT, VARCHAR, INT, CIDR])
    ),
    max_size=5,
)


@given(st.integers(1, 3), STEPS, STEPS, STEPS)
def test_what_is_sure_is_right(
    first: int,
    before: list[tuple[str, int, str, int]],
    until_shown: list[tuple[str, int, str, int]],
    since: list[tuple[str, int, str, int]],
) -> None:
    table = Modelled()
    for name in NAMES[:first]:
        table.step("add", 0, name, TEXT)
    for step in before:
        table.step(*step)
    noted = table.noted()
    for step in until_shown:
        table.step(*step)
    shown = table.present
    for step in since:
        table.step(*step)
    now = table.now()
    found = identities([column.shown for column in shown], noted, now)
    event(f"sure: {found.sure}")
    left = {column.number for column in now.present}
    if not found.sure:
        # No value counts as another column's, although all rows are read again.
        assert len(found.numbers) == len(shown)
        return
    for number, column in zip(found.numbers, shown, strict=True):
        if number in left or column.number in left:
            assert number == column.number


COLUMNS = [CatalogColumn(1, "id", INT, -1, "1"), CatalogColumn(2, "a", TEXT, -1, "1")]


def _found(shown: list[tuple[str, int]], now: list[CatalogColumn], attributes: int) -> tuple[tuple[int, ...], bool]:
    known = {str(c.number): NotedColumn(c.name, c.type, c.typmod, "", c.written, ()) for c in COLUMNS}
    noted = NotedTable(attributes=2, columns=known)
    columns = CatalogColumns(tuple(now), (), attributes)
    return tuple(identities([(name, of, -1) for name, of in shown], noted, columns))  # type: ignore[return-value]


def test_what_is_usual_is_sure() -> None:
    key, text = COLUMNS
    renamed, other = text._replace(name="b", written="2"), CatalogColumn(3, "a", INT, -1, "2")
    assert _found([("id", INT), ("a", TEXT)], COLUMNS, 2) == ((1, 2), True)
    assert _found([("id", INT), ("c", TEXT)], [key, renamed], 2) == ((1, 2), True)
    assert _found([("id", INT), ("b", TEXT), ("x", INT)], [key, renamed, other], 3) == ((1, 2, 3), True)
    assert _found([("id", INT), ("a", TEXT)], [key, other], 3) == ((1, 2), True)
    assert _found([("id", INT), ("a", INT)], [key, other], 3) == ((1, 3), True)
    assert _found([("id", INT)], [key, other], 3) == ((1,), True)
    # Dropped and added again with its type; and added twice.
    assert _found([("id", INT), ("a", TEXT)], [key, other._replace(type=TEXT)], 3) == ((1, 0), False)
    assert _found([("id", INT), ("a", TEXT), ("x", INT)], [*COLUMNS, CatalogColumn(4, "x", INT, -1, "2")], 4) == (
        (1, 2, 0),
        False,
    )
    computed = CatalogColumns(tuple(COLUMNS), (_computed(3),), 3)
    known = {str(c.number): NotedColumn(c.name, c.type, c.typmod, "", c.written, ()) for c in COLUMNS}
    noted = NotedTable(attributes=2, columns=known)
    assert identities([("id", INT, -1), ("a", TEXT, -1), ("g3", INT, -1)], noted, computed) == ((1, 2, 3), True)
    assert _found([("id", INT), ("a", TEXT)], [], 0) == ((0, 0), False)
