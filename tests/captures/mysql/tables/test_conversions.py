"""Which changes of a column's definition leave its values as documents have them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemark.captures.mysql.statements.actions import Alteration
from tidemark.captures.mysql.statements.tokens import NO_MODE, SqlMode
from tidemark.captures.mysql.tables.conversions import Definitions, keeps_values
from tidemark.captures.mysql.terms.columns import Column

INT = Column("a", "int")
TEXT = Column("a", "varchar", charset="utf8mb4", length=20)
DECIMAL = Column("a", "decimal", precision=10, scale=2)
ENUM = Column("a", "enum", charset="utf8mb4", labels=("x", "y"))
SET = replace(ENUM, data_type="set")
TIME = Column("a", "datetime", fraction=3)
DOUBLE = Column("a", "int", generated="stored", expression="`id` * 2")
STRICT = SqlMode.STRICT_TRANS_TABLES
BOOLEAN = Column("a", "tinyint", length=1)

KEPT = [
    (INT, replace(INT, description="why", zerofill=True, invisible=True)),
    (INT, replace(INT, data_type="bigint")),
    (replace(INT, unsigned=True), replace(INT, data_type="bigint")),
    (replace(INT, nullable=False), INT),
    (TEXT, replace(TEXT, length=30, collation="utf8mb4_bin")),
    (replace(TEXT, charset="latin1"), TEXT),
    (replace(TEXT, charset="latin1"), replace(TEXT, charset="utf8mb3")),
    (replace(TEXT, charset="utf8"), replace(TEXT, charset="utf8mb3")),
    (replace(TEXT, charset="ascii"), replace(TEXT, charset="latin1")),
    (replace(TEXT, data_type="char"), TEXT),
    (TEXT, replace(TEXT, data_type="text", length=65535)),
    (replace(TEXT, data_type="text"), replace(TEXT, data_type="mediumtext", charset="utf16")),
    (Column("a", "blob"), Column("a", "longblob")),
    (DECIMAL, replace(DECIMAL, precision=12)),
    (replace(DECIMAL, unsigned=True), DECIMAL),
    (ENUM, replace(ENUM, labels=("z", "y", "x"))),
    (SET, replace(SET, labels=("x", "y", "z"))),
    (TIME, TIME),
    (Column("a", "bit", length=2), Column("a", "bit", length=9)),
    (DOUBLE, replace(DOUBLE, description="why")),
    (DOUBLE, replace(DOUBLE, generated="", expression="")),
]

STRICTLY_KEPT = [
    (replace(ENUM, charset="latin1"), ENUM),
    (INT, replace(INT, nullable=False)),
    (INT, replace(INT, data_type="smallint")),
    (INT, replace(INT, unsigned=True)),
    (DECIMAL, replace(DECIMAL, precision=8)),
    (replace(TEXT, data_type="text", charset="latin1"), replace(TEXT, data_type="text")),
]
"""Otherwise values become others: NULL 0, and what is out of range the largest value."""

CONVERTED = [
    (INT, TEXT),
    (INT, DECIMAL),
    (TEXT, replace(TEXT, length=10)),
    (TEXT, replace(TEXT, data_type="char")),
    (TEXT, replace(TEXT, charset="latin1")),
    (TEXT, replace(TEXT, charset="utf8mb3")),
    (replace(TEXT, data_type="text"), TEXT),
    (TEXT, replace(TEXT, data_type="tinytext")),
    (TEXT, Column("a", "varbinary", length=20)),
    (replace(TEXT, data_type="longtext"), replace(TEXT, data_type="longtext", json=True)),
    (Column("a", "binary", length=4), Column("a", "binary", length=8)),
    (DECIMAL, replace(DECIMAL, precision=12, scale=3)),
    (Column("a", "float"), Column("a", "double")),
    (TIME, replace(TIME, fraction=6)),
    (TIME, replace(TIME, data_type="timestamp")),
    (ENUM, replace(ENUM, labels=("x", "z"))),
    (replace(ENUM, labels=("x", "?")), replace(ENUM, labels=("x", "?", "z"))),
    (SET, replace(SET, labels=("y", "x"))),
    (Column("a", "bit", length=1), Column("a", "bit", length=2)),
    (Column("a", "binary", length=16), Column("a", "uuid")),
    (DOUBLE, replace(DOUBLE, expression="`id` * 3")),
    (INT, DOUBLE),
    (replace(TIME, data_type="timestamp"), replace(TIME, data_type="timestamp", nullable=False)),
    (BOOLEAN, replace(BOOLEAN, length=None)),
    (BOOLEAN, INT),
]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        *[(*each, (True, True)) for each in KEPT],
        *[(*each, (True, False)) for each in STRICTLY_KEPT],
        *[(*each, (False, False)) for each in CONVERTED],
    ],
)
def test_definitions(before: Column, now: Column, kept: tuple[bool, bool], strict: bool) -> None:
    mode = STRICT if strict else NO_MODE
    assert keeps_values(before, now, mode=mode, tinyint1_as_bool=True) == kept[not strict]


def test_a_char_is_filled_up_in_some_modes() -> None:
    char, mode = replace(TEXT, data_type="char"), STRICT | SqlMode.PAD_CHAR_TO_FULL_LENGTH
    for now, kept in ((TEXT, False), (replace(TEXT, data_type="text"), False), (replace(char, length=30), True)):
        assert keeps_values(char, now, mode=mode, tinyint1_as_bool=True) == kept


LONGER = replace(TEXT, length=40)
OTHER = Column("b", "int")


def converted(
    definitions: Definitions,
    alteration: Alteration,
    position: int,
    as_of: int,
    *now: Column,
    emitted: str = "ab",
    key: str = "",
    mode: SqlMode = STRICT,
) -> tuple[str, ...]:
    return definitions.converted(
        alteration, position, now, as_of, emitted=emitted, key=key, mode=mode, tinyint1_as_bool=False
    )


def test_one_statement_between_two_definitions_that_are_known() -> None:
    definitions = Definitions((TEXT, OTHER), 0, captured=True)
    assert converted(definitions, Alteration(revalued=("a",)), 10, 100, LONGER, OTHER) == ()
    # Another column, while the log is behind the catalog; and one that two statements name.
    assert converted(definitions, Alteration(revalued=("b",)), 20, 100, LONGER, OTHER) == ()
    assert converted(definitions, Alteration(revalued=("a",)), 30, 100, LONGER, OTHER) == ("a",)
    # What is read again then, is read as the table is after all of them.
    assert converted(definitions, Alteration(revalued=("a",)), 40, 100, LONGER, OTHER) == ()
    assert converted(definitions, Alteration(revalued=("a",)), 110, 200, TEXT, OTHER) == ("a",)
    assert converted(definitions, Alteration(), 210, 300, TEXT, OTHER) == ()


def test_a_key_that_is_converted_while_rows_are_to_be_read_again() -> None:
    """The rows of before keep their keys until the table is emptied, and that the reread does not do."""
    definitions = Definitions((TEXT, OTHER), 0, captured=True)
    number = replace(OTHER, data_type="double")
    # The key is another one for a while, and the log is behind it.
    assert converted(definitions, Alteration(revalued=("a", "b")), 10, 100, TEXT, number, key="a") == ("b",)
    assert converted(definitions, Alteration(revalued=("b",)), 20, 100, TEXT, number, key="a") == ()
    assert converted(definitions, Alteration(revalued=("a",)), 30, 100, TEXT, number, key="a") == ("a",)
    assert converted(definitions, Alteration(revalued=("a",)), 40, 100, TEXT, number, key="a") == ()
    assert converted(definitions, Alteration(revalued=("b",)), 110, 200, TEXT, OTHER, key="a") == ("b",)


def test_columns_that_are_added() -> None:
    definitions = Definitions((TEXT,), 0, captured=True)
    assert converted(definitions, Alteration(added=("b",)), 10, 10, TEXT, OTHER) == ()
    full = replace(OTHER, name="c", nullable=False)
    assert converted(definitions, Alteration(added=("c",)), 20, 20, TEXT, full, emitted="abc") == ("c",)
    given = Alteration(added=("d",), revalued=("d",))
    assert converted(definitions, given, 30, 30, TEXT, replace(OTHER, name="d"), emitted="d") == ("d",)


def test_columns_that_documents_do_not_have() -> None:
    """Their values are of no account, unless others are generated from them."""
    number = replace(OTHER, data_type="double")
    definitions = Definitions((TEXT, OTHER), 0, captured=True)
    assert converted(definitions, Alteration(revalued=("b",)), 10, 10, TEXT, number, emitted="a") == ()
    generated = replace(DOUBLE, expression="`b` * 2")
    definitions = Definitions((generated, OTHER), 0, captured=True)
    assert converted(definitions, Alteration(revalued=("b",)), 10, 10, generated, number, emitted="a") == ("a",)


def test_what_is_generated_from_a_column_that_is_redefined() -> None:
    """Its order counts, too, and columns in between do."""
    first, second = replace(DOUBLE, expression="`B` = 'x'"), replace(DOUBLE, name="c", expression="(`a` + 1)")
    text = replace(TEXT, name="b")
    for other, found in {
        replace(text, collation="utf8mb4_bin"): ("a", "c"),
        replace(text, charset="utf16"): ("a", "c"),
        replace(text, length=40, nullable=False, invisible=True, description="why"): (),
    }.items():
        definitions = Definitions((first, second, text), 0, captured=True)
        for now in ((first, second, other), (second, first, other)):
            names = converted(definitions, Alteration(revalued=("b",)), 10, 10, *now, emitted="abc")
            assert tuple(sorted(names)) == found
            definitions = Definitions((first, second, text), 0, captured=True)


def test_what_is_generated_and_converted_together_with_its_base() -> None:
    """As CONVERT TO CHARACTER SET does with a text that is the HEX of another."""
    base = replace(TEXT, name="b", charset="latin1")
    generated = replace(TEXT, generated="stored", expression="hex(`b`)")
    definitions = Definitions((generated, base), 0, captured=True)
    now = replace(generated, charset="utf16"), replace(base, charset="utf16")
    assert converted(definitions, Alteration(texts=True), 10, 10, *now, emitted="ab") == ("a",)


def test_what_is_generated_from_a_char_that_is_filled_up() -> None:
    """A copy of the rows makes it anew."""
    char = replace(TEXT, name="b", data_type="char")
    generated = replace(DOUBLE, expression="`b` = 'x'")
    for mode, found in ((STRICT, ()), (STRICT | SqlMode.PAD_CHAR_TO_FULL_LENGTH, ("a",))):
        definitions = Definitions((generated, char), 0, captured=True)
        assert converted(definitions, Alteration(), 10, 10, generated, char, mode=mode) == found


def test_a_column_that_begins_to_count_up() -> None:
    """NULL and 0 become numbers; without NULL, a mode leaves 0 as it is."""
    number = replace(INT, nullable=False)
    counting = replace(number, counts_up=True)
    zeros = STRICT | SqlMode.NO_AUTO_VALUE_ON_ZERO
    for before, mode, found in (
        (number, STRICT, ("a",)),
        (number, zeros, ()),
        (INT, zeros, ("a",)),
        (counting, STRICT, ()),
    ):
        definitions = Definitions((before,), 0, captured=True)
        assert converted(definitions, Alteration(revalued=("a",)), 10, 10, counting, mode=mode) == found
    # What another statement did to it is not this one's.
    assert converted(Definitions((number,), 0, captured=True), Alteration(), 10, 10, counting) == ()


def test_what_was_before_is_not_known() -> None:
    """Of a state that an earlier version wrote, or that was written while the log was behind the catalog."""
    definitions = Definitions((TEXT,), 100, captured=True)
    assert converted(definitions, Alteration(revalued=("a",)), 10, 100, TEXT) == ("a",)
    definitions = Definitions((TEXT,), 100, captured=True)
    assert converted(definitions, Alteration(texts=True), 10, 100, TEXT) == ("a",)
    definitions = Definitions((TEXT,), 5, captured=True)
    definitions.on_another_server(100)
    assert converted(definitions, Alteration(revalued=("a",)), 10, 100, TEXT) == ("a",)
    definitions = Definitions((TEXT,), 0, captured=True)  # All of that log was read.
    definitions.on_another_server(100)
    assert converted(definitions, Alteration(revalued=("a",)), 10, 100, TEXT) == ()
    definitions = Definitions((TEXT,), 100, captured=False)
    assert converted(definitions, Alteration(revalued=("a",)), 10, 100, TEXT) == ()


def unexplained(definitions: Definitions, since: int, *columns: Column, key: str = "", named: bool = False) -> bool:
    shown = [column.name for column in columns] if named else None
    return definitions.unexplained(columns, since, key=tuple(key), of_values=shown, tinyint1_as_bool=False)


def test_what_no_statement_explains() -> None:
    definitions = Definitions((TEXT, OTHER), 0, captured=True)
    assert definitions.settled((TEXT, OTHER)) and not definitions.settled((OTHER, TEXT))
    assert unexplained(definitions, 5, OTHER, TEXT)
    assert definitions.settled((OTHER, TEXT)), "it is known from then on"
    assert unexplained(definitions, 5, OTHER, TEXT, replace(OTHER, name="c"))
    # Names are told in any case, and what they explain is said once.
    converted(definitions, Alteration(revalued=("A",), dropped=("c",)), 10, 10, OTHER, LONGER)
    assert not unexplained(definitions, 10, OTHER, LONGER)
    assert unexplained(definitions, 10, OTHER, TEXT)


def test_a_statement_after_the_catalog_was_read_explains_what_comes_later() -> None:
    definitions = Definitions((TEXT,), 0, captured=True)
    converted(definitions, Alteration(added=("b",)), 20, 20, TEXT, OTHER)
    assert not unexplained(definitions, 10, TEXT)
    assert not unexplained(definitions, 20, TEXT, OTHER)


@pytest.mark.parametrize(
    ("before", "now", "key"),
    [
        (INT, replace(INT, nullable=False), "a"),
        (Column("a", "tinyint", length=4), Column("a", "tinyint"), ""),
        (replace(TEXT, charset="utf8"), replace(TEXT, charset="utf8mb3"), ""),
        (replace(DOUBLE, collation="x"), DOUBLE, ""),
        (replace(ENUM, labels=("?",)), replace(ENUM, labels=("?",), description="why"), ""),
    ],
)
def test_what_a_key_or_an_upgrade_explains(before: Column, now: Column, key: str) -> None:
    for named in (False, True):
        assert not unexplained(Definitions((before,), 0, captured=True), 5, now, key=key, named=named)


def test_where_the_log_names_columns_only_values_count() -> None:
    for now, counts in ((LONGER, False), (replace(TEXT, length=10), True), (replace(TEXT, name="b"), True)):
        assert unexplained(Definitions((TEXT,), 0, captured=True), 5, now, named=True) == counts
        assert unexplained(Definitions((TEXT,), 0, captured=True), 5, now)
    # Another server may describe what it replicates in another way.
    definitions = Definitions((TEXT,), 5, captured=True)
    definitions.on_another_server(100)
    assert not unexplained(definitions, 5, LONGER)
    assert unexplained(definitions, 5, TEXT)
