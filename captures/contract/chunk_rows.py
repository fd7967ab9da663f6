"""The rows of a chunk: many byte strings in few large ones, cheap to pass on, and to write with a text before each.

Rows are ready to be written as captured lines (``Rows``), or as a batch of columns (``ColumnRows``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from struct import calcsize
from typing import Literal, Protocol, Self, TypeAlias, overload

from tidemark.backfill.keys import Key
from tidemark.protocol.batches import Meta, Part, batch_line
from tidemark.protocol.codec import captured_prefix, verified_prefix

KEY_MARK = b"\xff"
"""Separates packed keys, which are UTF-8."""

TAIL_MARK = b"\x00"
"""Separates packed tails, which are JSON."""

PIECE_BYTES = 1024 * 1024
"""Bytes of a piece, approximately. A piece is copied once, and written at once."""

PassOn: TypeAlias = Callable[[bytes], None]
"""Takes a piece of a chunk's rows while its later rows are still read."""


class JoinedRows(Sequence[bytes]):
    """A sequence of byte strings, kept one after another in pieces with a mark between them.

    Strings are cut out only when they are accessed. A large string, alone in its piece, is never copied.

    Args:
        mark: A byte that is in none of the strings.
    """

    __slots__ = ("_counts", "_mark", "_pieces", "_size")

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._pieces: list[bytes] = []
        self._counts: list[int] = []
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes in all strings and the marks between them."""
        return self._size

    def add(self, strings: Sequence[bytes]) -> None:
        """Appends strings as a new piece. Raises ValueError if one holds the mark."""
        if not strings:
            return
        piece = self._mark.join(strings)
        if piece.count(self._mark) != len(strings) - 1:
            raise ValueError("a string holds the mark")
        self.add_joined(piece, len(strings))

    def add_joined(self, piece: bytes, count: int) -> None:
        """Appends ``count`` strings, at least one, joined by the mark. It is not checked that none of them holds it."""
        self._pieces.append(piece)
        self._counts.append(count)
        self._size += len(piece)

    def spliced(self, head: bytes) -> Iterator[bytes]:
        """All strings in order, each with ``head`` in front, in pieces."""
        for piece in self._pieces:
            yield head
            yield piece.replace(self._mark, head)

    def __len__(self) -> int:
        return sum(self._counts)

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(map(self._cut, self._pieces))

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return list(self)[index]
        count = len(self)
        place = index + count if index < 0 else index
        if not 0 <= place < count:
            raise IndexError(index)
        for piece, held in zip(self._pieces, self._counts, strict=True):
            if place < held:
                # A scan asks for its last key with every chunk.
                return piece.rpartition(self._mark)[2] if place == held - 1 else self._cut(piece)[place]
            place -= held
        raise AssertionError("the counts do not add up")

    def _cut(self, piece: bytes) -> list[bytes]:
        return piece.split(self._mark)


class NumberKeys(Sequence[Key]):
    """Keys that are the decimal digits of integers, made only when they are accessed.

    Most chunks are written as they are: then nobody looks at their keys, but for the last one.

    Attributes:
        code: The size of the integers: see the module ``struct``.
    """

    __slots__ = ("_data", "code")

    def __init__(self, code: Literal["h", "i", "q"]) -> None:
        self.code = code
        self._data = bytearray()

    def add(self, numbers: memoryview[int]) -> None:
        """Appends the keys of some integers of that size."""
        self._data += numbers.cast("B")

    def __len__(self) -> int:
        return len(self._data) // calcsize(self.code)

    def __iter__(self) -> Iterator[Key]:
        return (b"%d" % number for number in memoryview(self._data).cast(self.code))

    @overload
    def __getitem__(self, index: int) -> Key: ...
    @overload
    def __getitem__(self, index: slice) -> list[Key]: ...
    def __getitem__(self, index: int | slice) -> Key | list[Key]:
        numbers = memoryview(self._data).cast(self.code)
        if isinstance(index, slice):
            return [b"%d" % number for number in numbers[index]]
        return b"%d" % numbers[index]


def joined_rows(mark: bytes, strings: Iterable[bytes], piece_bytes: int = PIECE_BYTES) -> JoinedRows:
    """Packs ``strings`` in pieces of about ``piece_bytes``."""
    made = JoinedRows(mark)
    batch: list[bytes] = []
    size = 0
    for string in strings:
        batch.append(string)
        size += len(string)
        if size >= piece_bytes:
            made.add(batch)
            batch, size = [], 0
    made.add(batch)
    return made


@dataclass(frozen=True, slots=True)
class ChunkHead:
    """What the rows of a chunk have in common, once their position is known.

    Attributes:
        binding: The table's.
        line: The text of a captured line before the number of its row.
        place: A row's number between these two texts is the JSON of the member that orders events.
        kind: Of the parts of batches.
    """

    binding: int
    line: bytes
    place: tuple[str, str]
    kind: Literal["chunk", "verify"] = "chunk"

    def verified(self) -> ChunkHead:
        """The head of rows that are compared, and are no events."""
        line = verified_prefix(self.binding) + self.line.removeprefix(captured_prefix(self.binding))
        return replace(self, line=line, kind="verify")


class ReadRows(Protocol):
    """Rows of a chunk, ready to be written once their position is known."""

    @property
    def keys(self) -> Sequence[Key]:
        """One per row, in scan order; the empty key for each row of a table that has none."""

    @property
    def size(self) -> int:
        """Bytes that are written of all rows, approximately."""

    def __len__(self) -> int: ...

    def messages(self, head: ChunkHead, keep: Sequence[slice] | None = None) -> Iterator[bytes]:
        """Whole messages of the protocol, in pieces; ``keep`` are the rows wanted, in order, None for all."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are written as captured lines: see ``ReadRows``.

    Attributes:
        tails: Parallel to ``keys``: what follows the head in a captured line, newline included.
    """

    keys: Sequence[Key] = ()
    tails: JoinedRows = field(default_factory=partial(JoinedRows, TAIL_MARK))

    def __len__(self) -> int:
        return len(self.tails)

    @property
    def size(self) -> int:
        """Bytes in the tails."""
        return self.tails.size

    def messages(self, head: ChunkHead, keep: Sequence[slice] | None = None) -> Iterator[bytes]:
        """See ``ReadRows``; in pieces of about ``PIECE_BYTES``."""
        if keep is None:
            return self.tails.spliced(head.line)
        tails = list(self.tails)
        return joined_rows(TAIL_MARK, chain.from_iterable(tails[kept] for kept in keep)).spliced(head.line)


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """Rows that are written as one batch of columns: see ``ReadRows`` and ``tidemark.protocol.batches``.

    Attributes:
        pieces: An Arrow IPC stream with a row for each of ``keys``.
        passed: So many pieces of it come before these, and were passed on: see ``behind``.
    """

    keys: Sequence[Key]
    pieces: Sequence[bytes]
    passed: int = 0

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def size(self) -> int:
        """Bytes in the pieces."""
        return sum(map(len, self.pieces))

    def behind(self, taken: Sequence[bytes]) -> Self:
        """The rows with all of their pieces; the last ones of ``taken`` are those that were passed on."""
        pieces = [*taken[len(taken) - self.passed :], *self.pieces]
        return replace(self, pieces=pieces, passed=0)

    def messages(self, head: ChunkHead, keep: Sequence[slice] | None = None) -> Iterator[bytes]:
        """See ``ReadRows``: the line of the batch, then its stream; nothing if no row is wanted."""
        skip = () if keep is None else left_out(keep, len(self))
        if len(skip) == len(self):
            return
        meta = Meta(place=head.place)
        yield batch_line(
            [Part(head.binding, head.kind, len(self), self.size, meta, skip)], events=len(self) - len(skip)
        )
        yield from self.pieces


def left_out(keep: Sequence[slice], count: int) -> tuple[int, ...]:
    """The numbers, below ``count``, that are in none of the slices, which are in order and do not overlap."""
    found: list[int] = []
    end = 0
    for kept in keep:
        found += range(end, kept.start)
        end = kept.stop
    found += range(end, count)
    return tuple(found)


class ChunkRows:
    """Gathers the rows of a chunk, some at a time: keys and tails, in order.

    Args:
        first: The number of earlier rows of the chunk: numbers continue from there.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._keys = JoinedRows(KEY_MARK)
        self._tails = JoinedRows(TAIL_MARK)

    @property
    def number(self) -> int:
        """The number of the next row in the chunk."""
        return self._first + len(self._tails)

    @property
    def size(self) -> int:
        """Bytes in the tails."""
        return self._tails.size

    def __len__(self) -> int:
        return len(self._tails)

    def add(self, keys: Sequence[bytes], tails: Sequence[bytes]) -> None:
        """Appends rows. Raises ValueError if a key or a tail holds its mark."""
        self._keys.add(keys)
        self._tails.add(tails)

    def add_joined(self, keys: bytes, tails: bytes, count: int) -> None:
        """Appends ``count`` rows, at least one, with ``KEY_MARK`` and ``TAIL_MARK`` between them."""
        self._keys.add_joined(keys, count)
        self._tails.add_joined(tails, count)

    def rows(self) -> Rows:
        """All rows."""
        return Rows(self._keys, self._tails)
