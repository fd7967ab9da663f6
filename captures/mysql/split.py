"""Cuts a table's keys into ranges of about the same number of rows, without reading it."""

from __future__ import annotations

from backfill.keys import Key, key_from_texts
from captures.mysql.scan_target import ScanTarget
from captures.mysql.session import Session

_INTEGERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))


def split(session: Session, target: ScanTarget, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
    """See ``captures.interface.Source.split``.

    Integers are cut evenly between the least and the greatest, which the index has at its ends. Keys of other types are
    not cut. Raises pymysql.Error.
    """
    if parts < 2 or not target.key or target.key[0].data_type not in _INTEGERS:
        return []
    least, greatest = (session.value(target.end(cursor, until, last=last)) for last in (False, True))
    if least is None or greatest is None:
        return []
    low, high = int(least), int(greatest)
    width = high - low + 1
    bounds = sorted({low + width * part // parts - 1 for part in range(1, parts)})
    return [key_from_texts([str(bound)]) for bound in bounds if low <= bound < high]
