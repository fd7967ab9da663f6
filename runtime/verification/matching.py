"""Finds the rows of the source without an event or a kept row of the same values, and those that are too many.

Rows are sorted by the digests of their keys. Then a row of the source stands behind the events that come before its
chunk: the nearest of them must give the same values. A row is too many if its last event came before the verification
began, and no chunk brought it: nothing touched it meanwhile, so it was there to be read.

Nearly all rows are settled before, which costs less than sorting them: see ``_unsettled``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute

from tidemark.protocol.verification.digests import DIGEST, mixed
from tidemark.runtime.verification.findings import Comparison, Kind
from tidemark.runtime.verification.sides import KEPT

pc: Any = pyarrow.compute

_GROUP_ROWS = 16
"""About so many rows of both sides are settled together, or not."""

_GROUPS = pa.schema([("group", DIGEST), ("number", DIGEST)])

_ZERO = pa.scalar(0, DIGEST)


@dataclass(frozen=True, slots=True)
class Matching:
    """Compares the rows of both sides, see ``side_schema``. All rows of a key come together.

    Attributes:
        found: Takes what differs.
        key: The names of the key's columns.
        begun: The offset at which the verification began.
        after: Only what stands behind this offset counts.
        apart: Digests of keys that are not compared.
        all_rows: Rows that the source does not have are too many.
    """

    found: Comparison
    key: list[str]
    begun: int
    after: int
    apart: Any
    all_rows: bool

    def compare(self, rows: pa.Table) -> pa.Table:
        """Compares some rows.

        Returns:
            Those of the source of which the nearest event leaves columns out.
        """
        self.found.rows += true(rows.column("source"))
        rows = self._that_count(rows)
        unsettled = _unsettled(rows, 2 * self.begun)
        self.found.compared += true(rows.column("source")) - true(unsettled.column("source"))
        return self._compare(unsettled) if unsettled.num_rows else unsettled

    def _that_count(self, rows: pa.Table) -> pa.Table:
        if rows.column("digest").null_count or len(self.apart):
            unfit = rows.filter(pc.and_(rows.column("source"), rows.column("digest").is_null())).column("id")
            apart = pa.chunked_array([*unfit.chunks, self.apart], DIGEST).combine_chunks()
            out = pc.is_in(rows.column("id"), apart)
            self.found.kept_apart += true(pc.and_(out, rows.column("source")))
            rows = rows.filter(pc.invert(out))
        if self.after > KEPT and pc.any(pc.less_equal(rows.column("place"), 2 * self.after + 1)).as_py():
            rows = rows.filter(pc.greater(rows.column("place"), 2 * self.after + 1))
        return rows

    def _compare(self, rows: pa.Table) -> pa.Table:
        numbers, ordered = _in_order(rows)
        source = ordered.column("source")
        same = _same_as_before(ordered)
        # A row that came twice is compared the first time.
        again = pc.and_(same, pc.and_(source, _before(source, False)))
        if pc.any(again).as_py():
            numbers, ordered = numbers.filter(pc.invert(again)), ordered.filter(pc.invert(again))
            source, same = ordered.column("source"), _same_as_before(ordered)
        there = pc.and_(same, _before(ordered.column("there"), False))
        event = _before(ordered.column("digest"), None)
        missing, both = pc.and_(source, pc.invert(there)), pc.and_(source, there)
        whole = event.is_valid()
        differs = pc.and_(both, pc.fill_null(pc.not_equal(event, ordered.column("digest")), False))
        self.found.compared += true(missing) + true(pc.and_(both, whole))
        kinds = {Kind.MISSING: missing, Kind.DIFFERENT: differs}
        if self.all_rows:
            alone = pc.and_(_is_last(same), pc.and_(ordered.column("there"), pc.invert(source)))
            kinds[Kind.TOO_MANY] = pc.and_(alone, pc.less(ordered.column("place"), 2 * self.begun))
        for kind, chosen in kinds.items():
            key = rows.select(self.key).take(numbers.filter(chosen))
            self.found.add(kind, key.columns, key.num_rows)
        return rows.take(numbers.filter(pc.and_(both, pc.invert(whole))))


def _unsettled(rows: pa.Table, begun: int) -> pa.Table:
    """The rows but for groups in which each row of the source has one event, of the same values and before all chunks.

    A group is of the keys with the same last bits of a digest. The sum of its rows of the source, each mixed to one
    number, less that of its events is 0 for such groups. For others it is so with a probability of 1 to 2⁶⁴.

    Args:
        rows: To be compared.
        begun: The place before which an event is before all chunks.
    """
    last_bits = pa.scalar((1 << (rows.num_rows // _GROUP_ROWS).bit_length()) - 1, DIGEST)
    # Batch by batch: columns of a whole bucket, one for each step, would not stay in memory that is there already.
    groups = pa.Table.from_batches((_in_groups(batch, last_bits, begun) for batch in rows.to_batches()), _GROUPS)
    sums = groups.group_by("group", use_threads=False).aggregate([("number", "sum")])
    other = sums.filter(pc.not_equal(sums.column("number_sum"), _ZERO)).column("group")
    if 2 * len(other) > len(sums):
        return rows
    return rows.filter(pc.is_in(groups.column("group"), other.combine_chunks()))


def _in_groups(rows: pa.RecordBatch, last_bits: Any, begun: int) -> pa.RecordBatch:
    """The group of each row, and its number in the sum of its group."""
    ids, source = rows.column("id"), rows.column("source")
    number = mixed(pc.bit_wise_xor(ids, rows.column("id_2")), rows.column("digest"))
    settles = pc.or_(source, pc.and_(rows.column("there"), pc.less(rows.column("place"), begun)))
    number = pc.coalesce(pc.if_else(settles, number, ids), ids)
    signed = pc.if_else(source, number, pc.subtract(_ZERO, number))
    return pa.RecordBatch.from_arrays([pc.bit_wise_and(ids, last_bits), signed], schema=_GROUPS)


def _in_order(rows: pa.Table) -> tuple[Any, pa.Table]:
    """Rows sorted by key and place, without their keys; and their numbers in ``rows``.

    Nearly always one digest tells all keys apart: then it is the only one that is sorted by.
    """
    slim = rows.select(["id", "id_2", "place", "source", "there", "digest"]).combine_chunks()
    numbers = pc.sort_indices(slim.column("place"))
    slim = slim.take(numbers)
    by_id = pc.sort_indices(slim.column("id"))  # Stable.
    slim, numbers = slim.take(by_id), numbers.take(by_id)
    collides = pc.and_(_like_before(slim, "id"), pc.invert(_like_before(slim, "id_2")))
    if pc.any(collides).as_py():
        exact = pc.sort_indices(slim, [("id", "ascending"), ("id_2", "ascending"), ("place", "ascending")])
        slim, numbers = slim.take(exact), numbers.take(exact)
    return numbers, slim


def true(column: Any) -> int:
    """How many are true."""
    return pc.sum(column).as_py() or 0


def _before(column: Any, first: Any) -> Any:
    """What the row before each row has."""
    return pa.chunked_array([pa.array([first], column.type), *column.slice(0, len(column) - 1).chunks], column.type)


def _like_before(rows: pa.Table, name: str) -> Any:
    column = rows.column(name)
    return pc.fill_null(pc.equal(column, _before(column, None)), False)


def _same_as_before(rows: pa.Table) -> Any:
    """Whether each row has the key of the one before it."""
    return pc.and_(_like_before(rows, "id"), _like_before(rows, "id_2"))


def _is_last(same_as_before: Any) -> Any:
    """Whether each row is the last one with its key."""
    behind = pa.chunked_array([*same_as_before.slice(1).chunks, pa.array([False])], pa.bool_())
    return pc.invert(behind)
