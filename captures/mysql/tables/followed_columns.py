"""The columns of a table after a statement, by the columns before it: also while the catalog is ahead of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidemark.captures.mysql.statements.actions import Alteration
from tidemark.captures.mysql.terms.columns import Column


def resolved(alteration: Alteration, columns: Sequence[Column]) -> Alteration | None:
    """The statement with the columns' names as the table has them, for the server ignores their case; None if something
    in it is not known, or does not fit the columns, such as a clause with IF EXISTS that did nothing.
    """
    names = {column.name.lower(): column.name for column in columns}
    if alteration.unknown or len(names) != len(columns):
        return None
    new = {new for _, new in alteration.renamed}
    try:
        renamed = tuple((names[old.lower()], new) for old, new in alteration.renamed)
        dropped = tuple(names[name.lower()] for name in alteration.dropped)
        revalued = tuple(
            name if name in new or name in alteration.added else names[name.lower()] for name in alteration.revalued
        )
        redefaulted = tuple(names[name.lower()] for name in alteration.redefaulted)
    except KeyError:
        return None
    stay = names.keys() - {name.lower() for name in (*dropped, *(old for old, _ in renamed))}
    came = [name.lower() for name in (*new, *alteration.added)]
    if len(set(came)) != len(came) or len(new) != len(renamed) or not stay.isdisjoint(came):
        return None
    return replace(
        alteration,
        renamed=tuple((old, new) for old, new in renamed if old != new),
        dropped=dropped,
        revalued=revalued,
        redefaulted=redefaulted,
    )


def followed(columns: Sequence[Column], alteration: Alteration, catalog: Sequence[Column]) -> tuple[Column, ...] | None:
    """The columns after a statement; None if the catalog does not have one of these any more.

    ``catalog`` has the definitions that the statement gives, perhaps with those of later ones.
    """
    defined = {column.name: column for column in catalog}
    given = {*alteration.revalued, *alteration.added}
    if alteration.texts:
        given |= {column.name for column in columns if column.charset is not None}
    new_names = dict(alteration.renamed)
    found = []
    for column in columns:
        name = new_names.get(column.name, column.name)
        if column.hidden or column.name in alteration.dropped:
            continue
        if name in given and name not in defined:
            return None
        found.append(defined[name] if name in given else replace(column, name=name))
    placed = _placed(found, alteration, defined)
    if placed is None:
        return None
    # A hidden column belongs to an index. Only at the end of the log is it known which of them there are.
    hidden = tuple(column for column in catalog if column.hidden)
    if (hidden or any(column.hidden for column in columns)) and not same_names(placed, catalog):
        return None
    return (*placed, *hidden)


def same_names(columns: Iterable[Column], others: Iterable[Column]) -> bool:
    """Whether two tables have columns of the same names in the same order, apart from hidden ones."""
    one, other = ([column.name for column in each if not column.hidden] for each in (columns, others))
    return one == other


def _placed(columns: Sequence[Column], alteration: Alteration, defined: dict[str, Column]) -> tuple[Column, ...] | None:
    """The columns with those that are added, and at the places that are given; None where these are not sure.

    One clause is carried out after the other. MariaDB first takes out all columns that move, and MySQL only the one
    whose turn it is: both ways are tried. Where a place is not there, the statement would have failed.
    """
    moved = {name.lower() for name, _ in alteration.placed}
    staying = [column for column in columns if column.name.lower() not in moved]
    ways = {_in_turn(staying, columns, alteration, defined), _in_turn(columns, columns, alteration, defined)} - {None}
    return ways.pop() if len(ways) == 1 else None


def _in_turn(
    begin: Iterable[Column], columns: Iterable[Column], alteration: Alteration, defined: dict[str, Column]
) -> tuple[Column, ...] | None:
    """Places columns one after the other among those of the beginning; None where a place is not there."""
    known = {column.name.lower(): column for column in columns}
    found = list(begin)
    for name, after in alteration.placed:
        column = defined.get(name) if name in alteration.added else known.get(name.lower())
        if column is None:
            return None
        if name not in alteration.added and column in found:
            found.remove(column)
        places = {there.name.lower(): at for at, there in enumerate(found, 1)} | {"": 0}
        at = len(found) if after is None else places.get(after.lower())
        if at is None:
            return None
        found.insert(at, column)
    return tuple(found)
