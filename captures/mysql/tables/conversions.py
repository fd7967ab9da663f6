"""Which columns have other values after an ALTER TABLE, as far as their definitions tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from captures.mysql.log.table_contract import BoundTable
from captures.mysql.tables.columns import Column

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_GROWING = ("char", "varchar", "varbinary")


def converted(names: Iterable[str], before: Sequence[Column], now: BoundTable) -> tuple[str, ...]:
    """Those of the columns that documents have and whose values may be others than before.

    Args:
        names: Columns that a statement added with values, or redefined.
        before: The table's columns before it.
    """
    known = {column.name: column for column in before}
    fresh = {column.name: column for column in now.columns if column.name in now.emitted}
    return tuple(
        name
        for name in dict.fromkeys(names)
        if name in fresh and (name not in known or not _keeps_values(known[name], fresh[name]))
    )


def _keeps_values(before: Column, now: Column) -> bool:
    """Whether every value of the one is the same value of the other."""
    if before.generated or now.generated:
        return before == now and not now.generated  # The expression may be another.
    if before.data_type in _INTEGERS and now.data_type in _INTEGERS and before.unsigned == now.unsigned:
        wider = _INTEGERS.index(now.data_type) >= _INTEGERS.index(before.data_type)
        return wider and (now.nullable or not before.nullable)
    like = replace(now, nullable=before.nullable, invisible=before.invisible)
    if now.data_type in _GROWING and (now.length or 0) >= (before.length or 0):
        like = replace(like, length=before.length, charset=before.charset)
    if now.labels[: len(before.labels)] == before.labels:
        like = replace(like, labels=before.labels)
    return like == before and (now.nullable or not before.nullable)
