"""Finds runs of rows whose keys ascend, row group by row group, without a step of Python for each row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.protocol.changelog.models import MOST_RUNS, Run
from tidemark.runtime.changelog.segments.key_jumps import key_jumps
from tidemark.runtime.changelog.segments.stated_keys import stated_rows


class KeyRuns:
    """The runs of one segment's backfilled rows.

    Args:
        key: As ``stated_key`` gives it.
        longest: The most rows of a run.
    """

    def __init__(self, key: dict[str, str], longest: int) -> None:
        self._key = key
        self._longest = longest
        self._rows = 0
        self._starts: list[int] = []
        """The rows, counted from 0, that begin a run."""
        # Tables of the first rows of runs, of the last ones of all runs but the open one, and of the newest row.
        self._firsts: list[pa.Table] = []
        self._lasts: list[pa.Table] = []
        self._newest: pa.Table | None = None
        self._given_up = False

    def add(self, rows: pa.Table) -> list[int]:
        """Takes the next backfilled rows: the columns of the key and ``_offset``, in the order of the latter.

        Returns:
            The rows, counted from 0, whose key is not greater than the one before, or much greater.
        """
        if self._given_up or not rows.num_rows:
            return []
        if not self._key or any(rows.column(name).null_count for name in self._key):
            self._give_up()
            return []
        # The first of these rows continues the run of the newest row, or begins one.
        joined = rows if self._newest is None else pa.concat_tables([self._newest, rows])
        begun = self._rows - (joined.num_rows - rows.num_rows)
        if self._newest is None:
            self._starts.append(0)
            self._firsts.append(rows.slice(0, 1).take([0]))
        breaks = self._breaks(joined)
        if len(self._starts) + len(breaks) > MOST_RUNS:
            self._give_up()
            return []
        if len(self._starts) + len(breaks) < MOST_RUNS // 2:
            breaks = sorted([*breaks, *self._jumps(joined, breaks)])
        starts = self._new_starts(breaks, begun, self._rows + rows.num_rows)
        if starts:
            if len(self._starts) + len(starts) > MOST_RUNS:
                self._give_up()
                return []
            self._starts += starts
            self._firsts.append(joined.take([start - begun for start in starts]))
            self._lasts.append(joined.take([start - begun - 1 for start in starts]))
        # A copy: a slice would keep the whole row group in memory.
        self._newest = rows.slice(rows.num_rows - 1).take([0])
        behind = joined.num_rows - rows.num_rows
        self._rows += rows.num_rows
        return [place + 1 - behind for place in breaks]

    def finish(self) -> list[Run] | None:
        """The runs of all rows; None where ``Segment.runs`` is."""
        if self._given_up:
            return None
        if self._newest is None:
            return []
        firsts, lasts = pa.concat_tables(self._firsts), pa.concat_tables([*self._lasts, self._newest])
        first_keys, last_keys = stated_rows(firsts, self._key), stated_rows(lasts, self._key)
        if first_keys is None or last_keys is None:
            return None
        first_offsets: list[Any] = firsts.column("_offset").to_pylist()
        last_offsets: list[Any] = lasts.column("_offset").to_pylist()
        sizes = [end - start for start, end in pairwise([*self._starts, self._rows])]
        return [
            Run(first_offset=first_offset, last_offset=last_offset, rows=rows, first=first, last=last)
            for first_offset, last_offset, rows, first, last in zip(
                first_offsets, last_offsets, sizes, first_keys, last_keys, strict=True
            )
        ]

    def _new_starts(self, breaks: list[int], begun: int, end: int) -> list[int]:
        """Where runs begin among new rows: after a break or a jump, and after the most rows of a run."""
        starts: list[int] = []
        start = self._starts[-1]
        for after in [*(begun + place + 1 for place in breaks), end]:
            starts += range(start + self._longest, after, self._longest)
            if after < end:
                starts.append(after)
                start = after
        return starts

    def _breaks(self, rows: pa.Table) -> list[int]:
        """Indices of the rows whose successor's key is not greater."""
        ascending = _ascending([rows.column(name) for name in self._key])
        breaks: list[Any] = pc.indices_nonzero(pc.invert(ascending)).to_pylist()
        return breaks

    def _jumps(self, rows: pa.Table, breaks: list[int]) -> list[int]:
        """Indices of the rows whose successor's key is much greater; at most as many as leave room for other runs."""
        jumps: list[int] = []
        columns = [rows.column(name) for name in self._key]
        for start, end in pairwise([0, *(place + 1 for place in breaks), rows.num_rows]):
            found = key_jumps([column.slice(start, end - start) for column in columns])
            jumps += (start + place - 1 for place in found)
        return jumps[: MOST_RUNS // 2 - len(self._starts) - len(breaks)]

    def _give_up(self) -> None:
        self._given_up = True
        self._firsts.clear()
        self._lasts.clear()
        self._newest = None


def _ascending(columns: Sequence[pa.ChunkedArray[Any]]) -> Any:
    """For each row but the last, whether the next one's key is greater, the first column weighing most."""
    column, *others = columns
    earlier, later = column.slice(0, len(column) - 1), column.slice(1)
    ascending: Any = pc.less(earlier, later)
    if not others:
        return ascending
    return pc.or_(ascending, pc.and_(pc.equal(earlier, later), _ascending(others)))
