"""Reduces a table's events to one change per key: what a merge into the table's current state needs.

Of a key's events, in offset order, only those after its last delete say anything about its row. The newest of them
decides, except for columns that it left unchanged: their value is that of the newest event that carried them, and,
where none did and nothing was deleted in between, the value in the target.

All of it is Arrow, in one process, as the merge after it is: a batch fits in memory, and reducing a million events
takes a fraction of a second, less than it would take to send them anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.spark_sink.changes.key_order import keys_of

if TYPE_CHECKING:
    Values = pa.Array[Any] | pa.ChunkedArray[Any]

DELETED = "__tidemark_deleted"
"""Name of a boolean column: the key is gone."""

_KEPT = "__tidemark_kept_"
_INDEX = "__tidemark_index"
_NEWEST, _MEMBERS = f"{_INDEX}_max", f"{_INDEX}_list"


@dataclass(frozen=True, slots=True)
class NetChanges:
    """What a batch of events comes down to.

    Attributes:
        rows: One per key: the columns asked for, ``DELETED``, and a flag for each partial column.
        partial: Names of the columns that some events did not carry, each with that of its flag, a boolean column: the
            target's value stays.
    """

    rows: pa.Table
    partial: dict[str, str]


def net_changes(events: pa.Table, key: Sequence[str], columns: Sequence[str]) -> NetChanges:
    """Reduces events, which are in offset order and without a TRUNCATE.

    Args:
        events: Of one table, with ``_op``, ``_unchanged`` and ``columns``.
        key: Names of the key's columns.
        columns: To carry over, the key's among them. ``_offset`` becomes that of the key's newest event.
    """
    lacked = set(pc.list_flatten(events["_unchanged"]).unique().to_pylist())
    names = [name for name in columns if name in lacked and name not in key]
    numbered = keys_of(events, key).append_column(_INDEX, numbers(events.num_rows))
    grouping = numbered.group_by(list(key), use_threads=not names)
    groups = grouping.aggregate([(_INDEX, "max"), (_INDEX, "list")] if names else [(_INDEX, "max")])
    if not names and groups.num_rows == events.num_rows:
        newest = events  # no key twice, as in a backfill
    else:
        # Groups come in no order. The rows stay in that of the events: sorted events give sorted rows.
        groups = groups.take(pc.sort_indices(groups[_NEWEST]))
        # In one chunk, as an index into the events is then one into each column's memory.
        events = events.combine_chunks()
        newest = events.take(groups[_NEWEST])
    rows = newest.select(list(columns)).append_column(DELETED, pc.equal(newest["_op"], pa.scalar("d")))
    partial = {name: f"{_KEPT}{number}" for number, name in enumerate(names)}
    if partial:
        history = _KeyHistory(events, groups)
        for name, flag in partial.items():
            value, kept = history.last_carried(name)
            rows = rows.set_column(rows.schema.get_field_index(name), name, value).append_column(flag, kept)
    return NetChanges(rows, partial)


class _KeyHistory:
    """Looks back in each key's events. A group is a key, by its place in ``groups``."""

    def __init__(self, events: pa.Table, groups: pa.Table) -> None:
        self._events = events
        self._groups = numbers(groups.num_rows)
        members = groups[_MEMBERS].combine_chunks()
        of_group = pc.list_parent_indices(members).take(pc.sort_indices(pc.list_flatten(members)))
        self._index = pa.table({"group": of_group, "index": numbers(events.num_rows)})
        self._deletes = pc.equal(events["_op"], pa.scalar("d"))
        self._deleted = self._newest(self._deletes)
        unchanged = events["_unchanged"].combine_chunks()
        self._lacked_names = pc.list_flatten(unchanged)
        self._lacked_at = pc.list_parent_indices(unchanged)

    def last_carried(self, name: str) -> tuple[Values, Values]:
        """For each key, the column's newest value since its last delete, and whether there is none and no delete."""
        lacking = self._lacked_at.filter(pc.equal(self._lacked_names, pa.scalar(name)))
        carrying = pc.invert(pc.or_(self._deletes, pc.is_in(self._index["index"], value_set=lacking)))
        carried = self._newest(carrying)
        # Comparing with nothing gives null: nothing carried, or nothing deleted.
        outdated = pc.less(carried, self._deleted)
        carried = pc.if_else(pc.fill_null(outdated, pa.scalar(False)), pa.scalar(None, pa.int64()), carried)
        kept = pc.and_(pc.is_null(carried), pc.is_null(self._deleted))
        return self._events[name].take(carried), kept

    def _newest(self, where: Values) -> Values:
        """For each group the index of its newest event among some, null where there is none."""
        found = self._index.filter(where).group_by("group").aggregate([("index", "max")]).combine_chunks()
        places = pc.index_in(self._groups, value_set=found["group"])
        return found["index_max"].take(places)


def numbers(count: int) -> pa.Int64Array:
    """0, 1, 2, …"""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=pa.scalar(-1, pa.int64()))
