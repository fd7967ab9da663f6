"""Batches of columns: events as Arrow, between our connectors and our runtime (docs/protocol.md).

A batch is one line, and after its newline the Arrow IPC streams that the line announces. A connector sends them only to
a runtime that offers ``tidemark.protocol.environment.BATCHES``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.messages import MAX_UINT32

ARROW = "arrow"
"""The value of ``tidemark.protocol.environment.BATCHES`` that offers them."""

HEAD = b'{"capturedBatch":'
"""How the line of a batch begins."""

MOST_BYTES = 64 * 1024 * 1024
"""Bytes of a batch's streams together: a runtime holds them in memory."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_UINT32)]


class Meta(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What all rows of a part share.

    Attributes:
        json: Places of the columns whose cells hold the JSON of the document's member.
        place: Of a chunk: a row's number between these two texts is the JSON text of its ``loc`` or ``cursor``.
        first: Of a chunk: the number of its first row.
    """

    json: Sequence[Count] = ()
    place: tuple[str, str] | None = None
    first: Count = 0


class Part(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The events of one binding.

    Attributes:
        rows: Of its stream.
        bytes: Of its stream.
        kind: ``chunk``: rows of a backfill; ``log``; ``verify``: rows that are compared, as of a chunk.
        skip: Of a chunk: rows that are no events, counted from 0, in ascending order.
    """

    binding: Count
    kind: Literal["chunk", "log", "verify"]
    rows: Count
    bytes: Count
    meta: Meta = Meta()
    skip: Sequence[Count] = ()


class CapturedBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the line announces.

    Attributes:
        events: How many its parts have together; those of a verification count as events here.
        bytes: How many follow the line.
        parts: In the order of their streams.
    """

    events: Count
    bytes: Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]
    parts: Sequence[Part]


class BatchLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The line, with its kind."""

    captured_batch: CapturedBatch = msgspec.field(name="capturedBatch")


_decoder = msgspec.json.Decoder(BatchLine)


def batch_line(parts: Sequence[Part], events: int) -> bytes:
    """The line of a batch, newline included."""
    batch = CapturedBatch(events, sum(part.bytes for part in parts), parts)
    return msgspec.json.encode(BatchLine(batch)) + b"\n"


def read_batch_line(line: bytes) -> CapturedBatch:
    """Reads the line of a batch.

    Raises:
        ProtocolError: ``TM-PRO-003`` a wrong field; ``TM-PRO-008`` its numbers contradict each other.
    """
    try:
        batch = _decoder.decode(line).captured_batch
    except msgspec.DecodeError as error:
        raise ProtocolError("TM-PRO-003", f"capturedBatch: {error}") from None
    if sum(part.bytes for part in batch.parts) != batch.bytes:
        raise broken("its parts do not have the bytes that it announces")
    if sum(part.rows - len(part.skip) for part in batch.parts) != batch.events:
        raise broken("its parts do not have the events that it announces")
    for part in batch.parts:
        if part.kind != "log" and (len(batch.parts) > 1 or part.meta.place is None):
            raise broken("a chunk is a batch of its own, and has a place")
        if part.kind == "log" and part.skip:
            raise broken("no event of a log is left out")
        ascending = all(one < other for one, other in zip(part.skip, part.skip[1:], strict=False))
        if not ascending or (part.skip and part.skip[-1] >= part.rows):
            raise broken("the rows that it leaves out are not rows of it in ascending order")
    if len({part.binding for part in batch.parts}) < len(batch.parts):
        raise broken("a binding has several parts")
    return batch


def broken(what: str) -> ProtocolError:
    """The error for a batch whose line or bytes are not what they must be."""
    return ProtocolError("TM-PRO-008", f"a batch of columns cannot be read: {what}")
