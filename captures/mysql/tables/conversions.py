"""Which columns have other values after an ALTER TABLE, by their definitions before and after it.

A statement that converts values writes no rows to the log. Rows that were captured before it would keep their old
values. An ALTER TABLE that is not in the log is found by a definition that no statement of the log explains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from tidemark.captures.mysql.statements.actions import Alteration
from tidemark.captures.mysql.statements.tokens import NO_MODE, SqlMode
from tidemark.captures.mysql.terms.columns import UNICODE, Column, quoted_name
from tidemark.captures.mysql.values.types import form

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_SIZED_TEXTS = ("char", "varchar")
_TEXTS = (*_SIZED_TEXTS, "tinytext", "text", "mediumtext", "longtext")
_BYTES = ("varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_TINY = ("tinytext", "tinyblob")

_BASIC_PLANE = frozenset(("utf8", "utf8mb3", "ucs2"))
"""Character sets that have every character of all others."""


class Definitions:
    """The definitions of a table's columns before the statements of the log that are still to be read.

    The catalog has the present definitions. While the log is behind it, the definitions before and after one statement
    that names a column are known. Of a second such statement neither is known.

    Args:
        columns: The definitions at a position of the log.
        as_of: That position, or a later one: the definitions may be those after any statement up to here. 0 if reading
            the log begins there.
        captured: There may be rows downstream from before that position.

    Attributes:
        own: Columns of MariaDB's own types, as the statements read so far have defined them. MariaDB's log does not
            distinguish them from others.
    """

    _before: dict[str, Column] | None
    _settled: tuple[Column, ...] | None

    def __init__(self, columns: Sequence[Column], as_of: int, *, captured: bool) -> None:
        self.begin(columns, as_of)
        if captured:
            self._before = {}  # Unknown.

    def begin(self, columns: Sequence[Column], as_of: int) -> None:
        """The whole table is read again; the catalog had these columns at ``as_of``."""
        self._now, self._as_of = {column.name: column for column in columns}, as_of
        # Before the statements up to there. None if no captured row is older than they are.
        self._before = None
        self._named: set[str] = set()
        # All rows are read again, in their state of ``_as_of`` or later. Keys that are others by then do not go by it.
        self._keys_alone = False
        self._settled = tuple(columns)
        self._told: dict[str, int] = {}
        self.own: dict[str, Column] = {}

    def on_another_server(self, as_of: int) -> None:
        """Earlier positions mean nothing here. If the log was behind the catalog, it now is until ``as_of``."""
        if self._as_of:
            self._as_of = as_of
        self._settled = None
        self._told.clear()

    def note_own_types(self, alteration: Alteration, before: Iterable[Column]) -> None:
        """Follows ``own`` through a statement; ``before`` are what the table had, or may have had, so far."""
        known = {column.name: column for column in before if column.log_says_less} | self.own
        moved = {new: replace(known[old], name=new) for old, new in alteration.renamed if old in known}
        for name in (*alteration.left(), *alteration.revalued, *alteration.added):
            self.own.pop(name, None)
        self.own |= moved
        for name, kind in alteration.own:
            json = kind == "json"
            self.own[name] = Column(name, "longtext", charset="utf8mb4", json=True) if json else Column(name, kind)

    def converted(
        self,
        alteration: Alteration,
        position: int,
        now: Sequence[Column],
        as_of: int,
        *,
        emitted: Iterable[str],
        key: Collection[str],
        mode: SqlMode,
        tinyint1_as_bool: bool,
        filled: Collection[str] | None = None,
    ) -> tuple[str, ...]:
        """The columns of documents that may have other values after a statement, which is noted as read.

        Args:
            position: Where it ends in the log.
            now: The columns as the catalog had them.
            as_of: Where the log ended after that: ``now`` may have all statements up to here, and has no later one.
            emitted: Names of the columns that documents have, and of the key's.
            key: Names of the key's columns, before the statement or after it.
            filled: Names of columns that it adds, and of which consumers know the value of all rows; None if they never
                do.
        """
        if position > self._as_of:
            self._before, self._named, self._keys_alone = self._now, set(), False
        named = {*alteration.revalued, *alteration.added, *self._rename(alteration)}
        before = self._before
        if filled is not None and before is not None:
            # The value that consumers know is the catalog's, perhaps of after this statement.
            others = {name.lower() for name in alteration.redefaulted}
            named |= {column.name for column in now if column.name.lower() in others and column.name not in before}
        if alteration.texts:
            named |= {column.name for column in (*self._now.values(), *now) if column.charset is not None}
        explained = {*named, *alteration.left(), *alteration.redefaulted, *(new for _, new in alteration.renamed)}
        self._explain(explained, position)
        self._now, self._as_of = {column.name: column for column in now}, as_of
        if before is None:
            return ()
        found, redefined = [], []
        for column in now:
            if column.name in (filled or ()):
                continue
            known = before.get(column.name)
            if column.name in named and (known is None or column.name in self._named):
                other = column.name not in alteration.added or column.name in alteration.revalued or not column.nullable
            elif known is None:
                continue  # Another statement adds it.
            else:
                other = not keeps_values(known, column, mode=mode, tinyint1_as_bool=tinyint1_as_bool)
                other |= column.name in named and _is_numbered(known, column, mode)
            if other and not column.hidden:
                found.append(column.name)
            padded = column.data_type == "char" and mode & SqlMode.PAD_CHAR_TO_FULL_LENGTH
            if other or padded or known is None or not _same_to_others(known, column):
                redefined.append(column.name)
        found += _generated_from(redefined, [column for column in now if column.name not in found])
        self._named |= named
        self._explain(found, position)
        shown = set(key if self._keys_alone else emitted)
        converted = tuple(name for name in found if name in shown)
        if converted:
            self._keys_alone = True
        if not set(key).isdisjoint(converted):
            self._before = None  # The table is emptied.
        return converted

    def knows(self, alteration: Alteration, position: int) -> bool:
        """Whether the definitions of all columns that a statement changes were known before it, which ends at
        ``position``."""
        if position > self._as_of or self._before is None or self._keys_alone:
            return True
        came = {*alteration.added, *(new for _, new in alteration.renamed)}
        named = {*alteration.revalued, *alteration.left()} - came
        if alteration.texts:
            named |= {column.name for column in self._now.values() if column.charset is not None}
        return named <= self._before.keys() - self._named

    def _rename(self, alteration: Alteration) -> set[str]:
        """Follows the definitions from before to the columns' new names. Returns those that have none."""
        if self._before is None:
            return set()
        before, renamed = self._before, dict(alteration.renamed)
        left = alteration.left()
        self._before = {name: column for name, column in before.items() if name not in left} | {
            new: replace(before[old], name=new) for old, new in renamed.items() if old in before
        }
        moved = {renamed.get(name, name) for name in self._named if name not in left or name in renamed}
        self._named = moved
        return {new for old, new in renamed.items() if old not in before}

    # Changes that no statement explains.

    def _explain(self, names: Iterable[str], position: int) -> None:
        self._told.update((name.lower(), position) for name in names)

    def settled(self, columns: tuple[Column, ...]) -> bool:
        """Whether the catalog is unchanged since it was last compared with the log."""
        return self._settled == columns and all(
            column.expression == before.expression for column, before in zip(columns, self._settled, strict=True)
        )

    def unexplained(
        self,
        columns: tuple[Column, ...],
        since: int,
        *,
        key: Collection[str],
        of_values: Collection[str] | None,
        tinyint1_as_bool: bool,
    ) -> bool:
        """Whether a statement that is not in the log changed the columns. They are settled afterwards.

        Args:
            columns: As the catalog had them when the log was read to ``since``; the log was then read to its end.
            key: Names of the key's columns, which become NOT NULL with it.
            of_values: The columns of documents, if only changes of their values matter; None if the log's rows are
                read by the catalog's columns.
        """
        before, self._settled = self._settled, columns
        told, self._told = self._told, {name: place for name, place in self._told.items() if place > since}
        if before is None:
            return False
        shown = None if of_values is None or any(c.generated for c in columns if c.name in of_values) else of_values

        def compared(of: Sequence[Column]) -> list[Column]:
            return [c for c in of if c.name.lower() not in told and (shown is None or c.name in shown)]

        old, new = compared(before), compared(columns)
        return [c.name for c in old] != [c.name for c in new] or not all(
            _same(_in_key(one, key), _in_key(other, key), of_values is None, tinyint1_as_bool=tinyint1_as_bool)
            for one, other in zip(old, new, strict=True)
        )


def _in_key(column: Column, key: Collection[str]) -> Column:
    return replace(column, nullable=False) if column.name in key else column


def _same(before: Column, now: Column, exactly: bool, *, tinyint1_as_bool: bool) -> bool:
    """Whether earlier rows mean the same; ``exactly``: even if they are read by the other definition."""
    if (same := _as_any_version(before) == _as_any_version(now)) and before.expression == now.expression:
        return True
    return (same or not exactly) and keeps_values(before, now, mode=NO_MODE, tinyint1_as_bool=tinyint1_as_bool)


def _as_any_version(column: Column) -> Column:
    """Without what a server prints differently after an upgrade."""
    charset = "utf8mb3" if column.charset == "utf8" else column.charset
    length = None if column.data_type == "tinyint" and column.length != 1 else column.length
    return replace(column, charset=charset, length=length)


def _is_numbered(before: Column, now: Column, mode: SqlMode) -> bool:
    """Whether a statement that names a column gives numbers to rows that had NULL or 0 in it."""
    zeros_stay = mode & SqlMode.NO_AUTO_VALUE_ON_ZERO and not before.nullable
    return now.counts_up and not before.counts_up and not zeros_stay


def _same_to_others(before: Column, now: Column) -> bool:
    """Whether a column that is generated from this one has the same values, if this one has."""

    def compared(column: Column) -> tuple[Column, str | None, str, bool]:
        length = None if column.data_type in ("varchar", "varbinary") else column.length
        return replace(_plain(column), length=length), column.collation, column.expression, column.zerofill

    return compared(before) == compared(now)


def _generated_from(names: Iterable[str], columns: Iterable[Column]) -> list[str]:
    """The columns that are generated from those with these names, also by way of others."""
    bases, found = list(names), []
    left = [column for column in columns if column.generated]
    for name in bases:  # It grows.
        text = quoted_name(name).lower()
        more = [column.name for column in left if text in column.expression.lower()]
        found += more
        bases += more
        left = [column for column in left if column.name not in more]
    return found


def keeps_values(before: Column, now: Column, *, mode: SqlMode, tinyint1_as_bool: bool) -> bool:
    """Whether documents stay the same for every value of a column after an ALTER that gives it this definition."""
    strict = mode.strict
    if now.generated and (not before.generated or before.expression != now.expression):
        return False
    if before.nullable and not now.nullable and not (strict and now.data_type != "timestamp"):
        return False  # NULL becomes 0 or '', and in a timestamp the present time.
    if before.data_type == "char" and now.data_type != "char" and mode & SqlMode.PAD_CHAR_TO_FULL_LENGTH:
        return False
    if form(before, tinyint1_as_bool=tinyint1_as_bool) != form(now, tinyint1_as_bool=tinyint1_as_bool):
        return False
    kinds = before.data_type, now.data_type
    if all(kind in _INTEGERS for kind in kinds):
        return strict or _holds_integers(before, now)
    if all(kind in _TEXTS for kind in kinds) or all(kind in _BYTES for kind in kinds):
        return _holds_characters(before, now, strict=strict)
    if kinds[0] != kinds[1]:
        return False
    match now.data_type:
        case "decimal":
            wider = (now.precision or 0) >= (before.precision or 0) and (before.unsigned or not now.unsigned)
            return (before.scale or 0) == (now.scale or 0) and (strict or wider)
        case "bit":
            return strict or (now.length or 0) >= (before.length or 0)
        case "enum":
            return _keeps_labels(before, now, strict=strict) and set(before.labels) <= set(now.labels)
        case "set":
            return _keeps_labels(before, now, strict=strict) and now.labels[: len(before.labels)] == before.labels
        case _:
            return _plain(before) == _plain(now)


def _plain(column: Column) -> Column:
    """The part of a column that determines its values."""
    return replace(column, nullable=True, invisible=False, generated="")


def _holds_integers(before: Column, now: Column) -> bool:
    old, new = _INTEGERS.index(before.data_type), _INTEGERS.index(now.data_type)
    if before.unsigned == now.unsigned:
        return new >= old
    return before.unsigned and new > old


def _holds_characters(before: Column, now: Column, *, strict: bool) -> bool:
    """Whether every text, or every string of bytes, fits and stays as it is."""
    if before.json != now.json or not _has_characters_of(now.charset, before.charset):
        return False
    old, new = before.data_type, now.data_type
    if now.length is not None and new in (*_SIZED_TEXTS, "varbinary"):
        # A varchar keeps spaces at the end of a text, and a char does not.
        sized = old in (*_SIZED_TEXTS, "varbinary") and (new != "char" or old == "char")
        return sized and now.length >= (before.length or 0)
    ranks = _TEXTS if new in _TEXTS else _BYTES
    if ranks.index(new) < ranks.index(old) or (new in _TINY and old != new):
        return False
    # In another character set a text may need more bytes than the type can hold.
    return strict or before.charset == now.charset or ranks.index(new) > ranks.index(old)


def _has_characters_of(charset: str | None, other: str | None) -> bool:
    """Whether a character set has every character of another one."""
    if charset == other or charset in UNICODE:
        return True
    return (charset in _BASIC_PLANE and other not in UNICODE) or other == "ascii"


def _keeps_labels(before: Column, now: Column, *, strict: bool) -> bool:
    if before.charset != now.charset and not strict:
        return False  # MariaDB empties values where the labels become utf16.
    # The catalog has a question mark for each character that it cannot show, so two of them may differ.
    return _has_characters_of(now.charset, before.charset) and not any("?" in label for label in now.labels)
