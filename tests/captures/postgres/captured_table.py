"""One table captured in this process: its chunks and its log by the connector's own pieces, without an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec
from msgspec import Raw

from tests.captures.chunk_tails import tails
from tests.captures.session import begin
from tidemark.backfill.keys import Key
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import ChunkRequest
from tidemark.captures.contract.log import LogStream
from tidemark.captures.contract.source import Source
from tidemark.captures.contract.table_events import SetAside
from tidemark.captures.contract.wakeup import Wakeup
from tidemark.captures.postgres.chunks.reader import CopyChunkReader
from tidemark.captures.postgres.database import PostgresDatabase
from tidemark.captures.postgres.server.config import parse_endpoint, parse_resource
from tidemark.captures.postgres.server.session import ReaderEndpoint, connect
from tidemark.captures.postgres.tables.bindings import PostgresBinding, bound_tables
from tidemark.captures.postgres.tables.scan_target import ScanTarget
from tidemark.protocol.codec import split_captured
from tidemark.protocol.messages import Binding, CaptureSpec, JsonObject
from tidemark.testing.servers.postgres import Database


class CapturedTable:
    """What a source's chunks and log say of its one table; the log from the moment it was opened."""

    def __init__(self, source: Source, log: LogStream, reader: CopyChunkReader, target: ScanTarget) -> None:
        self.source = source
        self._log, self._reader, self._target = log, reader, target
        self._wakeup = Wakeup()

    def close(self) -> None:
        self._wakeup.close()

    def chunks(self, rows: int = 3) -> dict[Key, bytes]:
        """The columns of each row, as an object, by key; some rows at a time, each row once."""
        found: dict[Key, bytes] = {}
        cursor: Key | None = None
        while True:
            chunk = self._reader.read(ChunkRequest(0, ChunkPlan(cursor, (), scan=True), rows), self._target)
            for key, tail in zip(chunk.rows.keys, tails(chunk.rows), strict=True):
                assert key not in found
                found[key] = columns(self.source.chunk_head(0, 0).line + tail)
            if chunk.end:
                return found
            cursor = chunk.rows.keys[-1]

    def again(self, keys: list[Key]) -> dict[Key, bytes]:
        """The rows that are found by their keys."""
        request = ChunkRequest(0, ChunkPlan(None, tuple(keys), scan=False), 0)
        rows = self._reader.read(request, self._target).rereads
        return {
            key: columns(self.source.chunk_head(0, 0).line + tail)
            for key, tail in zip(rows.keys, tails(rows), strict=True)
        }

    def log(self) -> list[bytes]:
        """The captured lines that came since the last call. Raises the error for which the log sets the table aside."""
        end, lines = self.source.end_of_log(), list[bytes]()
        while self._log.position < end:
            self._log.request_progress()
            batch = self._log.read(1 << 20, 5, self._wakeup.descriptor)
            lines += (line for text in batch.lines for line in text.splitlines(keepends=True))
            for event in batch.events:
                if isinstance(event, SetAside):
                    raise event.error
        self._log.acknowledge(self._log.position)
        return [line for line in lines if split_captured(line)]


@contextmanager
def captured(
    database: Database, schema: str, table: str, *, slot: str = "", config: JsonObject | None = None, **resource: Any
) -> Iterator[CapturedTable]:
    """Opens a source of one table. Makes publication and slot, unless a slot is named.

    Args:
        config: Entries of the endpoint's configuration.
        resource: Those of the table's.
    """
    names = {"slot": slot or f"{database.name}_one"[-60:], "publication": "tidemark"}
    endpoint = {**database.config(), **names, **(config or {})}
    bound = Binding(resource_config={"schema": schema, "table": table, **resource}, state_key=table)
    if not slot:
        PostgresDatabase().validate(endpoint, [bound])
        begin(PostgresDatabase(), CaptureSpec(config=endpoint, bindings=[bound]))
    parsed, options = parse_endpoint(endpoint), parse_resource(bound.resource_config)
    with connect(parsed) as session:
        (found,) = bound_tables(session, [options], parsed.publication)
    assert found is not None
    salt = parsed.hash_salt.get_secret_value().encode()
    target = PostgresBinding(0, table, options, found, True, salt, parsed.on_bad_value).scan_target()
    with (
        closing(PostgresDatabase().open(endpoint, [bound])) as source,
        closing(source.open_log(source.end_of_log())) as log,
        closing(CopyChunkReader(ReaderEndpoint.of(parsed))) as reader,
        closing(CapturedTable(source, log, reader, target)) as opened,
    ):
        yield opened


def columns(line: bytes) -> bytes:
    """The columns of a captured line's document, as an object."""
    members = document(line)
    del members["_meta"]
    return msgspec.json.encode(members)


def before(line: bytes) -> bytes:
    """The old row of a captured line's document."""
    meta = msgspec.json.decode(document(line)["_meta"], type=dict[str, Raw])
    return msgspec.json.encode(msgspec.json.decode(meta["before"], type=dict[str, Raw]))


def operation(line: bytes) -> str:
    return str(msgspec.json.decode(msgspec.json.decode(document(line)["_meta"], type=dict[str, Raw])["op"]))


def document(line: bytes) -> dict[str, Raw]:
    """A captured line's document; its values are their exact JSON."""
    found = split_captured(line)
    assert found is not None
    return msgspec.json.decode(found[1], type=dict[str, Raw])
