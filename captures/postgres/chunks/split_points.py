"""Where to cut the rest of a scan into ranges: from the planner's statistics, else between the least and greatest key.

Nothing here reads the table, only its statistics and both ends of its index. The server compares, in the column's own
collation, and computes, so that any type will do; what it cannot cut stays in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, takewhile
from uuid import UUID

import psycopg
from psycopg import errors, sql

from tidemark.backfill.keys import Key, key_from_texts, key_texts
from tidemark.captures.postgres.catalog.columns import Column
from tidemark.captures.postgres.chunks.pages import Place, files_query, page_bounds, parse_file
from tidemark.captures.postgres.tables.scan_target import ScanTarget, operand

SplitScan = Callable[[psycopg.Connection, ScanTarget, Key | None, Key | None, int], list[Key]]
"""Cuts the rest of a scan: ``split`` one by key, ``split_pages`` one by pages."""

SPLIT_SECONDS = 2
"""No question of a split takes longer, for the log waits meanwhile: where one would, the scan stays in one piece."""

LOCK_SECONDS = 0.05
"""Nor waits longer for a table that somebody locks: then its chunks wait, too."""

# A value of the common ones, or a bound of the histogram of the others, and the share of rows from the previous bound
# up to it. A plain table has one entry; a partitioned one has its partitions' rows in the inherited one.
_STATISTICS = """
WITH statistics AS (
    SELECT * FROM pg_stats WHERE schemaname = {schema} AND tablename = {table} AND attname = {column}
    AND inherited = {partitioned}
), points AS (
    SELECT bound, CASE place WHEN 1 THEN 0 ELSE
        (1 - (SELECT coalesce(sum(f), 0) FROM unnest(most_common_freqs) f)) / (cardinality(bounds) - 1) END AS share
    FROM statistics, LATERAL (SELECT histogram_bounds::text::text[] AS bounds) b,
         unnest(b.bounds) WITH ORDINALITY p (bound, place)
    UNION ALL
    SELECT value, share
    FROM statistics, unnest(most_common_vals::text::text[], most_common_freqs) v (value, share)
), typed AS (
    SELECT bound::{type}{collation} AS bound, share FROM points
)
SELECT format('%s', bound), sum(share) FROM typed {where} GROUP BY bound ORDER BY bound
"""

_COLLATION = """
SELECT n.nspname, c.collname
FROM pg_attribute a
JOIN pg_collation c ON c.oid = a.attcollation
JOIN pg_namespace n ON n.oid = c.collnamespace
WHERE a.attrelid = {oid} AND a.attname = {column}
"""

_ENDS = "SELECT (SELECT format('%s', {column}) {least}), (SELECT format('%s', {column}) {greatest})"

_BETWEEN = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric"), "floor({low} + ({high} - {low}) * {part} / {parts})"),
    "date": "{low} + floor(({high} - {low})::numeric * {part} / {parts})::int",
    **dict.fromkeys(("timestamp", "timestamptz"), "{low} + ({high} - {low}) * ({part}::float8 / {parts})"),
}
"""By type, the point ``part / parts`` of the way from ``low`` to ``high``."""

_UUID = 2950
_TYPES = {20: "int8", 21: "int2", 23: "int4", 1700: "numeric", 1082: "date", 1114: "timestamp", 1184: "timestamptz"}


def split(
    session: psycopg.Connection, target: ScanTarget, cursor: Key | None, until: Key | None, parts: int
) -> list[Key]:
    """Bounds that cut a scan by key; see ``Source.split``. ``session`` commits by itself. Raises psycopg.Error."""
    if parts < 2 or not target.key:
        return []

    def bounds() -> list[Key]:
        if (operators := target.operators()) is not None:
            session.execute(operators.as_bytes(session))
        return _Split(session, target, cursor, until).bounds(parts)

    return _in_time(session, bounds)


def split_pages(
    session: psycopg.Connection, target: ScanTarget, cursor: Key | None, until: Key | None, parts: int
) -> list[Key]:
    """Bounds that cut a physical scan; as ``split``."""

    def bounds() -> list[Key]:
        files = [parse_file(list(map(_text, row))) for row in session.execute(files_query(target.table.oid))]
        first, last = (None if key is None else Place.parse(key) for key in (cursor, until))
        return [place.key() for place in page_bounds(files, first, last, parts)]

    return _in_time(session, bounds)


def _in_time(session: psycopg.Connection, bounds: Callable[[], list[Key]]) -> list[Key]:
    """What ``bounds`` finds before the log has waited too long; none otherwise."""
    limits = {"statement_timeout": SPLIT_SECONDS, "lock_timeout": LOCK_SECONDS}
    try:
        with session.transaction():
            for name, seconds in limits.items():
                session.execute(f"SET LOCAL {name} = {round(seconds * 1000)}".encode())
            return bounds()
    except (psycopg.DataError, psycopg.ProgrammingError, errors.QueryCanceled, errors.LockNotAvailable):
        # A value that its own type does not read back, an end that is infinite, a column that is not there any more, an
        # index that is slow: no bounds then.
        return []


class _Split:
    """Cuts one range. All keys in it begin with ``prefix``, and are cut by the column after that."""

    def __init__(self, session: psycopg.Connection, target: ScanTarget, cursor: Key | None, until: Key | None) -> None:
        self._session = session
        self._target = target
        self._cursor = cursor
        self._until = until
        lower = [] if cursor is None else key_texts(cursor)
        upper = [] if until is None else key_texts(until)
        shared = sum(1 for _ in takewhile(lambda texts: texts[0] == texts[1], zip(lower, upper, strict=False)))
        self._prefix = lower[: min(shared, len(target.key) - 1)]
        self._column: Column = target.key[len(self._prefix)]
        self._lower = lower[len(self._prefix) :]
        self._upper = upper[len(self._prefix) :]

    def bounds(self, parts: int) -> list[Key]:
        # The statistics are those of the whole column, whatever stands before it in the key.
        points = [] if self._prefix else self._statistics()
        texts = _cut(points, parts) or self._between_ends(parts)
        return [key_from_texts([*self._prefix, text]) for text in texts]

    def _statistics(self) -> list[tuple[str, float]]:
        table, column = self._target.table, self._column
        query = sql.SQL(_STATISTICS).format(
            schema=sql.Literal(table.schema),
            table=sql.Literal(table.name),
            column=sql.Literal(column.name),
            partitioned=sql.Literal(table.partitioned),
            type=sql.SQL(column.type.name),
            collation=self._collation(),
            where=self._inside(sql.SQL("bound")),
        )
        return [(text, float(share)) for text, share in self._session.execute(query)]

    def _inside(self, bound: sql.Composable) -> sql.Composable:
        """A bound stands for all keys that begin with it, so it may equal the beginning of a longer cursor."""
        conditions = []
        if self._lower:
            operator = sql.SQL(">=" if len(self._lower) > 1 else ">")
            conditions.append(sql.SQL("{} {} {}").format(self._operand(bound), operator, self._literal(self._lower[0])))
        if self._upper:
            conditions.append(sql.SQL("{} < {}").format(self._operand(bound), self._literal(self._upper[0])))
        return sql.SQL("WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL("")

    def _between_ends(self, parts: int) -> list[str]:
        least, greatest = self._target.ends(self._cursor, self._until)
        with self._session.transaction():
            # The ends are those of the key's index. Where statistics are old, the server might sort the table instead.
            self._session.execute("SET LOCAL enable_sort = off")
            row = self._session.execute(
                sql.SQL(_ENDS).format(column=sql.Identifier(self._column.name), least=least, greatest=greatest)
            ).fetchone()
        assert row is not None
        low, high = row
        if low is None or high is None:
            return []
        if low == high:
            self._prefix.append(low)
            if len(self._prefix) == len(self._target.key):
                return []
            self._column = self._target.key[len(self._prefix)]
            return self._between_ends(parts)
        base = self._column.type.beneath
        if base.oid == _UUID:
            first, last = UUID(low).int, UUID(high).int
            points = (str(UUID(int=first + (last - first) * part // parts)) for part in range(1, parts))
            return [text for text in dict.fromkeys(points) if text != high]
        if base.oid not in _TYPES:
            return []
        return self._computed(_TYPES[base.oid], low, high, parts)

    def _computed(self, name: str, low: str, high: str, parts: int) -> list[str]:
        typed = "numeric" if name.startswith("int") else name
        ends = {
            "low": sql.SQL("{}::{}").format(sql.Literal(low), sql.SQL(typed)),
            "high": sql.SQL("{}::{}").format(sql.Literal(high), sql.SQL(typed)),
            "parts": sql.Literal(parts),
        }
        query = sql.SQL(
            "SELECT format('%s', bound) FROM (SELECT DISTINCT ({point})::{type} AS bound"
            " FROM generate_series(1, {parts} - 1) part) points WHERE bound < {high} ORDER BY bound"
        ).format(point=sql.SQL(_BETWEEN[name]).format(part=sql.SQL("part"), **ends), type=sql.SQL(name), **ends)
        return [text for (text,) in self._session.execute(query)]

    def _literal(self, text: str) -> sql.Composable:
        return self._operand(sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(self._column.type.name)))

    def _operand(self, value: sql.Composable) -> sql.Composable:
        return operand(value, self._column)

    def _collation(self) -> sql.Composable:
        query = sql.SQL(_COLLATION).format(
            oid=sql.Literal(self._target.table.oid), column=sql.Literal(self._column.name)
        )
        row = self._session.execute(query).fetchone()
        return sql.SQL("") if row is None else sql.SQL(" COLLATE {}").format(sql.Identifier(*row))


def _cut(points: Sequence[tuple[str, float]], parts: int) -> list[str]:
    """The points, in order, that leave about the same share between them; fewer where one has too large a share."""
    if not points:
        return []
    sums = list(accumulate(share for _, share in points))
    total = sums.pop()  # Behind the last point there is nothing, by the statistics.
    chosen: list[str] = []
    for part in range(1, parts) if sums else ():
        # The one whose share ends nearest to the part's own end.
        index = min(range(len(sums)), key=lambda i: abs(sums[i] - total * part / parts))
        chosen.append(points[index][0])
    return list(dict.fromkeys(chosen))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
