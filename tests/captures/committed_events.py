"""What a change log has of what a connector wrote, to compare the same changes as columns, and as lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.runtime.logged_events import events
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.models import QUARANTINE
from tidemark.protocol.codec import split_captured
from tidemark.runtime.changelog.documents.column_parts import column_parts
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.sessions.output_cutter import ColumnBatch, OutputCutter

Events = list[dict[str, Any]]


def committed(folder: Path, output: Sequence[bytes], schemas: Sequence[tuple[Any, Sequence[str]]]) -> list[Events]:
    """The events of a new change log of what a connector wrote, by table."""
    names = [f"public/t{number}" for number in range(len(schemas))]
    with LogWriter.open(folder, "test") as log:
        bound = [log.bind(name, *schema) for name, schema in zip(names, schemas, strict=True)]
        batch = log.begin()
        for found in OutputCutter(batches=True).cut(b"".join(output)):
            if isinstance(found, ColumnBatch):
                parts = column_parts(found.line, found.body, batch.next_offset)
                of = [bound[part.binding] for part in found.line.parts]
                batch.add_columns(list(zip(of, parts, strict=True)), found.line.events)
                continue
            for line in found:
                if (cut := split_captured(line)) is not None:
                    batch.add(bound[cut[0]], [cut[1]])
                    continue
                said = orjson.loads(line)["sourcedSchema"]
                number = said["binding"]
                bound[number] = log.bind(names[number], said["documentSchema"], schemas[number][1])
        log.commit(batch, {}, 1)
    read = ChangeLog(folder)
    kept_apart = list(events(read, QUARANTINE))
    return [list(events(read, name)) for name in names] + [kept_apart]


def alike(one: Events, other: Events) -> None:
    """Asserts that events are the same."""
    assert len(one) == len(other)
    differ = [_difference(*pair) for pair in zip(one, other, strict=True)]
    assert not any(differ), next(filter(None, differ))


def _difference(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What differs, by what Python shows: 0.0 is not -0.0, and NaN is NaN."""
    assert one.keys() == other.keys()
    return [f"{name}: {one[name]!r}, {other[name]!r}" for name in one if repr(one[name]) != repr(other[name])]
