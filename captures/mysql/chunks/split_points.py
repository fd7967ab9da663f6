"""Splits a table's keys into ranges with about the same number of rows, without reading the table.

Every query takes a few steps down the key's index: the first or last key of a range, and the optimizer's estimate of
its rows (EXPLAIN, by index dives). Keys in between are guessed, but a bound is always a key that the server found in
the range, with rows before and after it. So only the server's own order matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pymysql
from pymysql.constants import ER

from tidemark.backfill.keys import Key, key_from_texts, key_texts
from tidemark.captures.mysql.chunks.key_interpolation import between
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.rows.chunk_decoder import ChunkDecoder, compile_chunk_decoder
from tidemark.captures.mysql.server.result_rows import stream
from tidemark.captures.mysql.server.session import LOCK_SECONDS, Session

SPLIT_SECONDS = 0.5
"""The longest time for each query, and for all of them, because the log waits meanwhile."""

PIECES = 4
"""The number of pieces for each part: parts that are joined from them are nearly even."""

EVEN = 0.25
"""A cut is good enough if it leaves at least this share of the rows on either side."""

_GIVEN_UP = {ER.LOCK_WAIT_TIMEOUT, 1969, 3024}
"""Errors of a query that took too long: the table is locked, or the key has no index of its own."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A range of keys, as in ``tidemark.captures.contract.chunk.ChunkRequest``; ``least`` and ``greatest`` are rows'
    keys in it.

    ``rows`` is the server's estimate. ``whole``: no place to cut it was found.
    """

    after: Key | None
    until: Key | None
    least: Key
    greatest: Key
    rows: int
    whole: bool = False


def split(
    session: Session,
    target: ScanTarget,
    cursor: Key | None,
    until: Key | None,
    parts: int,
    clock: Callable[[], float] = time.monotonic,
) -> list[Key]:
    """See ``tidemark.captures.contract.source.Source.split``. A locked table is not split. Raises pymysql.Error."""
    if parts < 2 or not target.key:
        return []
    # MySQL's shortest time to wait for a lock is a second.
    if session.mariadb:
        wait, statement, longest = 0, "max_statement_time", str(SPLIT_SECONDS)
    else:
        wait, statement, longest = 1, "max_execution_time", str(round(SPLIT_SECONDS * 1000))
    session.rows(f"SET SESSION lock_wait_timeout = {wait}, {statement} = {longest}")
    pieces: list[_Piece] = []
    try:
        for found in _cut(_Keys(session, target), cursor, until, parts * PIECES, clock() + SPLIT_SECONDS, clock):
            pieces = found
    except pymysql.OperationalError as error:
        if error.args[0] not in _GIVEN_UP:
            raise
    session.rows(f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}, {statement} = 0")
    return _bounds(pieces, parts)


class _Keys:
    """Queries about the keys of one table. Raises pymysql.Error."""

    def __init__(self, session: Session, target: ScanTarget) -> None:
        self._session = session
        self._target = target
        self._decode: ChunkDecoder = compile_chunk_decoder(target.key, target.key_names, table=target.name)

    def least(self, after: Key | None, until: Key | None) -> Key | None:
        return self._first(self._target.end(after, until, last=False))

    def greatest(self, after: Key | None, until: Key | None) -> Key | None:
        return self._first(self._target.end(after, until, last=True))

    def rows(self, after: Key | None, until: Key | None) -> int:
        with self._session.connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(self._target.estimate(after, until))
            plan = cursor.fetchone() or {}
        return int(plan.get("rows") or 0)

    def candidates(self, piece: _Piece) -> Iterator[Key]:
        """Beginnings of keys about the middle of the piece."""
        low, high = key_texts(piece.least), key_texts(piece.greatest)
        for place, column in enumerate(self._target.key):
            if low[place] != high[place]:
                for text in between(column, low[place], high[place]):
                    yield self._not_beyond(piece, key_from_texts([*low[:place], text]), place)
                yield key_from_texts(low[: place + 1])
                return

    def _not_beyond(self, piece: _Piece, guess: Key, place: int) -> Key:
        """The beginning of the greatest key in the piece up to the guess; of the least where there is none."""
        found = self._first(self._target.last_before(piece.after, piece.until, guess)) or piece.least
        return key_from_texts(key_texts(found)[: place + 1])

    def _first(self, query: str) -> Key | None:
        rows = [row for block in stream(self._session.connection, query) for row in block]
        return self._decode(rows, 0)[1][0] if rows else None


def _cut(
    keys: _Keys, after: Key | None, until: Key | None, wanted: int, deadline: float, clock: Callable[[], float]
) -> Iterator[list[_Piece]]:
    """More and more pieces of a range, in order: each step cuts the largest."""
    least, greatest = keys.least(after, until), keys.greatest(after, until)
    if least is None or greatest is None:
        return
    pieces = [_Piece(after, until, least, greatest, keys.rows(after, until))]
    while len(pieces) < wanted and clock() < deadline:
        largest = max((piece for piece in pieces if not piece.whole), key=lambda piece: piece.rows, default=None)
        if largest is None:
            return
        place = pieces.index(largest)
        pieces[place : place + 1] = _halves(keys, largest)
        yield pieces


def _halves(keys: _Keys, piece: _Piece) -> Sequence[_Piece]:
    """The piece in two, as evenly as one of the candidates makes it."""
    best: tuple[_Piece, _Piece] | None = None
    tried = set()
    for bound in keys.candidates(piece):
        if bound in tried:
            continue
        tried.add(bound)
        behind, before = keys.least(bound, piece.until), keys.greatest(piece.after, bound)
        if behind is None or before is None:
            continue
        halves = (
            _Piece(piece.after, bound, piece.least, before, keys.rows(piece.after, bound)),
            _Piece(bound, piece.until, behind, piece.greatest, keys.rows(bound, piece.until)),
        )
        if best is None or _evenness(halves) > _evenness(best):
            best = halves
        if _evenness(best) >= EVEN:
            break
    return best or [_Piece(piece.after, piece.until, piece.least, piece.greatest, piece.rows, whole=True)]


def _evenness(halves: tuple[_Piece, _Piece]) -> float:
    rows = sorted(piece.rows for piece in halves)
    return rows[0] / max(1, sum(rows))


def _bounds(pieces: Sequence[_Piece], parts: int) -> list[Key]:
    """The ends of pieces that are nearest to even parts."""
    total = sum(piece.rows for piece in pieces)
    bounds: list[Key] = []
    rows = 0
    for piece, following in pairwise(pieces):
        rows += piece.rows
        assert piece.until is not None  # another piece follows
        target = total * (len(bounds) + 1) / parts
        if rows >= target or target - rows < rows + following.rows - target:
            bounds.append(piece.until)
            if len(bounds) == parts - 1:
                break
    return bounds
