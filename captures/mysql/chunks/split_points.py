"""Splits a table's keys into ranges with about the same number of rows, without reading the table.

Every query takes a few steps down the key's index: the first or last key of a range, and the optimizer's estimate of
its rows (EXPLAIN, by index dives). Keys in between are guessed, but a bound is always a key that the server found in
the range, with rows before and after it. So only the server's own order matters.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise, takewhile

import pymysql
from pymysql.constants import ER

from tidemark.backfill.keys import Key, key_from_texts, key_texts
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.rows.chunk_decoder import ChunkDecoder, compile_chunk_decoder
from tidemark.captures.mysql.server.session import LOCK_SECONDS, Session
from tidemark.captures.mysql.server.wire import stream
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values.types import KeyForm, key_form, key_text, text_of_key

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

    def end(self, after: Key | None, until: Key | None, *, last: bool) -> Key | None:
        return self._first(self._target.end(after, until, last=last))

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
    least, greatest = (keys.end(after, until, last=last) for last in (False, True))
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
        behind, before = keys.end(bound, piece.until, last=False), keys.end(piece.after, bound, last=True)
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


# Texts between two texts of a key column: they only decide how even the parts are.
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
"""Most collations have this order, with capital letters among or before the small ones."""

_PLACES = 6
"""The characters or bytes, after the common beginning, that are interpolated."""

_LAST_CHARACTER = 0x10FFFF

_OF_SEVERAL_BYTES = frozenset(("big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "sjis", "ujis"))
"""Character sets in which not every string of bytes is a text."""


def between(column: Column, low: str, high: str) -> Iterator[str]:
    """Texts of a key about half way from ``low`` to ``high``, the likeliest first; none if there is no rule."""
    try:
        yield from _between(column, low, high)
    except (ValueError, ArithmeticError):  # a zero date, or a year beyond what Python knows
        return


def _between(column: Column, low: str, high: str) -> Iterator[str]:
    match key_form(column):
        case KeyForm.TEXT:
            for text in _texts(text_of_key(low), text_of_key(high)):
                if _fits(text, column.charset):
                    yield key_text(text)
        case KeyForm.HEX:
            yield _bytes(bytes.fromhex(low), bytes.fromhex(high)).hex()
        case KeyForm.CODED:
            # The meaning of bytes is unknown here, but every byte, or every ASCII byte, is a text.
            code = "ascii" if column.charset in _OF_SEVERAL_BYTES else "latin-1"
            for text in _texts(*(bytes.fromhex(coded).decode(code) for coded in (low, high))):
                yield text.encode(code).hex()
        case KeyForm.REAL:
            # The difference of two doubles may be more than one can hold.
            yield repr(float(low) + (float(high) / 2 - float(low) / 2))
        case KeyForm.NUMBER:
            yield str((int(low) + int(high)) // 2)
        case KeyForm.PLAIN:
            yield from _plain(column.data_type, low, high)


def _plain(data_type: str, low: str, high: str) -> Iterator[str]:
    match data_type:
        case "decimal":
            yield format((Decimal(low) + Decimal(high)) / 2, "f")
        case "date" | "datetime" | "timestamp":
            first, last = datetime.fromisoformat(low), datetime.fromisoformat(high)
            yield str(first + (last - first) / 2)[: max(len(low), len(high))]
        case "time":
            yield _time((_microseconds(low) + _microseconds(high)) // 2)
        case "inet4" | "inet6":
            address = ipaddress.IPv4Address if data_type == "inet4" else ipaddress.IPv6Address
            yield str(address((int(address(low)) + int(address(high))) // 2))
        case "uuid":
            # MariaDB orders some versions of UUIDs by their last group first, and others as written.
            for order in (_LAST_GROUP_FIRST, _AS_WRITTEN):
                numbers = [int("".join(text.split("-")[place] for place in order), 16) for text in (low, high)]
                yield _uuid(sum(numbers) // 2, order)
        case _:
            yield str((int(low) + int(high)) // 2)


_AS_WRITTEN = (0, 1, 2, 3, 4)
_LAST_GROUP_FIRST = (4, 3, 2, 1, 0)
_UUID_DIGITS = (8, 4, 4, 4, 12)


def _uuid(number: int, order: tuple[int, ...]) -> str:
    digits = f"{number:032x}"
    groups = [""] * 5
    for place in order:
        groups[place], digits = digits[: _UUID_DIGITS[place]], digits[_UUID_DIGITS[place] :]
    return "-".join(groups)


def _microseconds(time: str) -> int:
    hours, minutes, seconds = time.lstrip("-").split(":")
    total = (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)
    return -total if time.startswith("-") else total


def _time(microseconds: int) -> str:
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    sign = "-" if microseconds < 0 else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def _bytes(low: bytes, high: bytes) -> bytes:
    shared = _shared(low, high)
    first, last = (int.from_bytes(text[shared : shared + _PLACES].ljust(_PLACES, b"\0"), "big") for text in (low, high))
    return low[:shared] + ((first + last) // 2).to_bytes(_PLACES, "big")


def _fits(text: str, charset: str | None) -> bool:
    """Whether the column could hold the text: for other texts the server would not use the index."""
    if charset == "latin1":
        return text.encode("cp1252", "ignore").decode("cp1252") == text
    return charset not in ("utf8", "utf8mb3", "ucs2") or max(map(ord, text), default=0) <= 0xFFFF


def _texts(low: str, high: str) -> Iterator[str]:
    """By the next digits and letters, ignoring case; then by the code point of the next character."""
    folded_low, folded_high = low.lower(), high.lower()
    if len(folded_low) == len(low) and len(folded_high) == len(high):
        shared = _shared(folded_low, folded_high)
        first, last = _fraction(folded_low[shared:]), _fraction(folded_high[shared:])
        made = _written((first + last) // 2)
        next_to = low[shared : shared + 1] + high[shared : shared + 1]
        yield low[:shared] + (made.upper() if next_to.isupper() else made)
    shared = _shared(low, high)
    first, last = (ord(text[shared]) if len(text) > shared else 0 for text in (low, high))
    middle = (first + last) // 2
    if 0 < middle <= _LAST_CHARACTER and not 0xD800 <= middle <= 0xDFFF:
        yield low[:shared] + chr(middle)


def _fraction(text: str) -> int:
    """The next characters as digits of a number; other characters count as the least or the greatest digit."""
    number = 0
    for place in range(_PLACES):
        character = text[place : place + 1]
        digit = _DIGITS.find(character) if character else 0
        if digit < 0:
            digit = len(_DIGITS) - 1 if character > _DIGITS[-1] else 0
        number = number * len(_DIGITS) + digit
    return number


def _written(number: int) -> str:
    characters = []
    for _ in range(_PLACES):
        number, digit = divmod(number, len(_DIGITS))
        characters.append(_DIGITS[digit])
    return "".join(reversed(characters))


def _shared(low: bytes | str, high: bytes | str) -> int:
    """The length of the common beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False)))
