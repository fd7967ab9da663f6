"""Cuts a table's keys into ranges of about the same number of rows, without reading it."""

from __future__ import annotations

from pymysql.constants import ER
from pymysql.err import OperationalError

from backfill.keys import Key, key_from_texts
from captures.mysql.scan_target import ScanTarget
from captures.mysql.session import LOCK_SECONDS, Session

_INTEGERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))


def split(session: Session, target: ScanTarget, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
    """See ``captures.interface.Source.split``.

    Integers are cut evenly between the least and the greatest, which the index has at its ends. Keys of other types are
    not cut, nor is a table that somebody locks. Raises pymysql.Error.
    """
    if parts < 2 or not target.key or target.key[0].data_type not in _INTEGERS:
        return []
    # The log waits meanwhile. MySQL knows no shorter time.
    session.rows(f"SET SESSION lock_wait_timeout = {0 if session.mariadb else 1}")
    try:
        least, greatest = (session.value(target.end(cursor, until, last=last)) for last in (False, True))
    except OperationalError as error:
        if error.args[0] != ER.LOCK_WAIT_TIMEOUT:
            raise
        least = greatest = None  # Somebody locks the table: its chunks wait, too.
    session.rows(f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
    if least is None or greatest is None:
        return []
    low, high = int(least), int(greatest)
    width = high - low + 1
    bounds = sorted({low + width * part // parts - 1 for part in range(1, parts)})
    return [key_from_texts([str(bound)]) for bound in bounds if low <= bound < high]
