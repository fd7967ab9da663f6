"""The last state of rows of which events leave columns out: each such column is as the event before had it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute

from tidemark.protocol.changelog import TableSchema
from tidemark.protocol.verification.digests import DIGEST, digests
from tidemark.runtime.verification.logged_rows import LoggedBatch, LoggedRows

pc: Any = pyarrow.compute

AT_ONCE = 20_000
"""Rows whose events are in memory, with all their columns."""

UNKNOWN = -1


def last_digests(rows: LoggedRows, schema: TableSchema, before: Mapping[int, int], after: int) -> dict[int, int | None]:
    """The digests of some rows as the events before an offset give them.

    Args:
        rows: The events.
        schema: That they are read under.
        before: By the digest of a row's key, the offset before which its events count.
        after: Only events behind this offset count.

    Returns:
        By the digest of the key. None where a column is left out by all events of the row.
    """
    found: dict[int, int | None] = {}
    ids = list(before)
    for start in range(0, len(ids), AT_ONCE):
        some = {each: before[each] for each in ids[start : start + AT_ONCE]}
        found |= _digests(rows, schema, some, after)
    return found


def _digests(rows: LoggedRows, schema: TableSchema, before: Mapping[int, int], after: int) -> dict[int, int | None]:
    wanted = pa.array(list(before), DIGEST)
    states: dict[int, list[int]] = {}
    tables: list[pa.Table] = []
    count = 0
    for batch in rows.batches():
        key = [batch.values.column(name) for name in schema.key]
        ids: Any = digests(key, batch.raw.num_rows)
        chosen = pc.and_(pc.is_in(ids, wanted), pc.greater(batch.meta("_offset"), after))
        ours = LoggedBatch(batch.values.filter(chosen), batch.raw.filter(chosen), batch.names)
        if not ours.raw.num_rows:
            continue
        _fold(ours, ids.filter(chosen).to_pylist(), before, states, count)
        tables.append(ours.values)
        count += ours.raw.num_rows
    known = {each: places for each, places in states.items() if UNKNOWN not in places}
    if not known:
        return dict.fromkeys(states)
    values = pa.concat_tables(tables)
    columns = [
        values.column(number).take(pa.array([places[number] for places in known.values()], pa.int64()))
        for number in range(values.num_columns)
    ]
    return dict.fromkeys(states) | dict(zip(known, digests(columns, len(known)).to_pylist(), strict=True))


def _fold(
    batch: LoggedBatch, ids: list[int], before: Mapping[int, int], states: dict[int, list[int]], first: int
) -> None:
    """Moves ``states``: by row, for each column the number of the event that has its value."""
    numbers = {name: number for number, name in enumerate(batch.names) if name is not None}
    metas = zip(ids, *(batch.meta(name).to_pylist() for name in ("_offset", "_op", "_unchanged")), strict=True)
    for event, (row, offset, op, unchanged) in enumerate(metas, first):
        if offset >= before[row]:
            continue
        if op == "d":
            states.pop(row, None)
            continue
        places = [event] * len(batch.names)
        known = states.get(row)
        for name in unchanged or ():
            if (number := numbers.get(name)) is not None:
                places[number] = UNKNOWN if known is None else known[number]
        states[row] = places
