"""Decodes row messages of pgoutput into columns: many messages of one relation at once.

Usual messages (a new row, every value there, all short) are joined and divided by one split. Others are divided one by
one. What columns cannot say raises ``Unusual``, as does what conversions do not know: then the same messages are
decoded into lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, Self

from tidemark.captures.postgres.rows.exact_log_decoder import (
    DELETE,
    HEAD,
    INSERT,
    MARKER,
    NEW,
    SEPARATOR,
    SHORT,
    UPDATE,
    ExactDecoder,
    Row,
    divided,
)
from tidemark.captures.postgres.rows.generated_source import UNCHANGED, Member, join_key
from tidemark.captures.postgres.values.column_values import SentTexts, sent_texts
from tidemark.captures.rows.cells import Cell
from tidemark.captures.tables.bad_values import ROW_LIMIT

LARGE_ROW = ROW_LIMIT // 8
"""Bytes of a message. A smaller one has a place in a captured line, for JSON needs at most six bytes for one, and its
names fit into the rest."""

_OPS = {INSERT: "c", UPDATE: "u"}
_LETTERS = bytes.maketrans(bytes(_OPS), b"cu")
_KIND = itemgetter(0)
_TEXT = itemgetter(slice(2, None))
_BEFORE_HEAD = itemgetter(slice(2, -HEAD))
_LAST = itemgetter(slice(-HEAD, None))


class Unusual(ValueError):
    """Columns cannot hold what messages say, or it is not known that they can."""


@dataclass(slots=True)
class Events:
    """What the messages of one relation say.

    Attributes:
        columns: Those that documents have.
        op: A letter for each event.
        before: JSON of the old rows of updates; None if there are none.
        unchanged: JSON of the names of columns without a value; None if there are none.
        of: The message of each event, counted from 0; None if each of them is one event.
        incomplete: Messages that brought a row to another key without all of its columns, and the key.
        json_size: Bytes of JSON, which may be far more than the messages have.
    """

    columns: list[list[str | None]]
    op: str
    before: list[str | None] | None
    unchanged: list[str | None] | None
    of: list[int] | None
    incomplete: list[tuple[int, bytes]]
    json_size: int = 0


class _Event(NamedTuple):
    op: str
    row: Row
    before: str | None
    unchanged: str | None


class LogColumns:
    """Decodes the messages of one relation. Arguments as of ``ExactDecoder``; ``cells`` is what columns have."""

    def __init__(
        self,
        exact: ExactDecoder,
        members: Sequence[Member],
        sent: Sequence[SentTexts],
        key: Sequence[int],
        count: int,
    ) -> None:
        self._exact = exact
        self._places = [member.place for member in members]
        self._sent = sent
        self._key = key
        self._count = count
        self._keeps_apart = any(member.column.on_bad_value == "quarantine" for member in members)
        self._new_head = bytes((NEW,)) + count.to_bytes(2, "big")
        self.cells = [Cell.JSON if one.json else Cell.TEXT for one in sent]

    @classmethod
    def of(cls, exact: ExactDecoder, members: Sequence[Member], key: Sequence[int], count: int) -> Self | None:
        """None for a table one of whose columns cannot be sent."""
        found = (sent_texts(member.column, member.conversion) for member in members)
        sent = [one for one in found if one is not None]
        return cls(exact, members, sent, key, count) if len(sent) == len(members) > 0 else None

    def events(self, messages: Sequence[bytes]) -> Events:
        """What messages, at least one, say.

        Raises:
            ValueError, LookupError, struct.error: They have to be decoded into lines. Among them are ``Unusual``, and
                errors with values of rows, which are not to be shown.
        """
        longest = max(map(len, messages))
        if longest > LARGE_ROW:
            raise Unusual("a row that is large")
        events = self._usual(messages) if longest < SHORT else None
        if events is None:
            events = self._any(messages, short=longest < SHORT)
        for place, (sent, texts) in enumerate(zip(self._sent, events.columns, strict=True)):
            if sent.convert is not None:
                events.columns[place] = _converted(sent, texts)
        of_json = [column for cell, column in zip(self.cells, events.columns, strict=True) if cell is Cell.JSON]
        events.json_size = sum(map(_size, of_json)) + _size(events.before or ())
        if events.json_size > LARGE_ROW:
            raise Unusual("rows that are large as JSON")
        return events

    def _usual(self, messages: Sequence[bytes]) -> Events | None:
        """The events of messages that are all usual; None if some are not."""
        count = self._count
        relation = messages[0][1:MARKER]
        heads = {(bytes((kind,)) + relation + self._new_head).decode("latin-1") for kind in _OPS}
        # The head of each message stands at the end of the part before it.
        joined = b"".join(messages) + messages[0][:HEAD]
        parts = joined.decode("latin-1").split(SEPARATOR)
        if len(parts) != len(messages) * count + 1 or parts[0] not in heads:
            return None
        last = parts[count::count]
        if not heads.issuperset(map(_LAST, last)):
            return None
        columns: list[list[str | None]] = [
            list(map(_BEFORE_HEAD, last) if place == count - 1 else map(_TEXT, parts[1 + place :: count]))
            for place in self._places
        ]
        letters = bytes(map(_KIND, messages)).translate(_LETTERS).decode()
        return Events(columns, letters, None, None, None, [])

    def _any(self, messages: Sequence[bytes], *, short: bool) -> Events:
        said: list[_Event] = []
        of: list[int] = []
        incomplete = []
        for number, message in enumerate(messages):
            events = self._said(message, short=short)
            said += events
            of += [number] * len(events)
            if len(events) > 1 and events[1].unchanged is not None:
                incomplete.append((number, join_key(events[1].row, self._key)))
        ops, rows, before, unchanged = (list(column) for column in zip(*said, strict=True))
        chosen = [[row[place] for row in rows] for place in self._places]
        return Events(
            [[None if value is UNCHANGED else value for value in column] for column in chosen],
            "".join(ops),
            before,
            unchanged,
            of if len(of) > len(messages) else None,
            incomplete,
        )

    def _said(self, message: bytes, *, short: bool) -> list[_Event]:
        """The events of any message."""
        exact = self._exact
        marker, tuples = exact.tuples(message, divided(message) if short else None)
        kind, row = message[0], tuples[-1]
        if kind == DELETE:
            join_key(row, self._key)
            return [_Event("d", exact.known(marker, row), None, None)]
        before: str | None = None
        deletion: list[_Event] = []
        if len(tuples) > 1:
            old = tuples[0]
            row = [was if now is UNCHANGED and was is not None else now for was, now in zip(old, row, strict=True)]
            if join_key(old, self._key) != join_key(row, self._key):
                kind, deletion = INSERT, [_Event("d", exact.known(marker, old), None, None)]
            elif members := exact.old_members(marker, old):
                before = f"{{{members[1:]}}}"
        join_key(row, self._key)  # Each event has a key.
        unchanged = exact.unchanged(row) or None
        if unchanged is not None and self._keeps_apart:
            raise Unusual("a row that a consumer may know in part")
        return [*deletion, _Event(_OPS[kind], row, before, unchanged)]


def _size(texts: Sequence[str | None]) -> int:
    return sum(map(len, filter(None, texts)))


def _converted(sent: SentTexts, texts: list[str | None]) -> list[str | None]:
    assert sent.convert is not None
    if None not in texts:
        return sent.convert(texts)  # type: ignore[arg-type, return-value]
    present = [text for text in texts if text is not None]
    if not present:
        return texts
    made = iter(sent.convert(present))
    return [None if text is None else next(made) for text in texts]
