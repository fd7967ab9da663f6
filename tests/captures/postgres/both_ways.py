"""Reads a table both ways, by COPY and from the log, on sessions as the connector opens them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
from psycopg import sql

from tidemark.captures.contract.chunk_rows import KEY_MARK, TAIL_MARK
from tidemark.captures.postgres.catalog.columns import Column, Table
from tidemark.captures.postgres.catalog.reading import read_tables
from tidemark.captures.postgres.chunks.row_decoder import ChunkDecoder
from tidemark.captures.postgres.log.pgoutput import read_relation
from tidemark.captures.postgres.rows.log_decoder import LogDecoder, Relation, compile_log_decoder
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.session import connect
from tidemark.captures.tables.bad_values import Policy
from tidemark.testing.servers.postgres import Database

Document = dict[str, Any]

SOURCE = b'{"schema":"public","table":"t","loc":[1,2,3,0]}'
_HEAD = b'{"captured":{"binding":7,"doc":{"_meta":{"op":"c","source":%b' % SOURCE


@dataclass(frozen=True)
class Event:
    """What one row message became: its captured lines, their documents, and the keys it touched."""

    lines: bytes
    documents: list[Document]
    touched: tuple[tuple[bytes, bool], ...]


class BothWays:
    """A publication of all tables and a slot on a database, and a session to change it with.

    Args:
        exclude: Columns that documents do not have.
        on_bad_value: Of all columns.
    """

    def __init__(self, database: Database) -> None:
        self.session = connect(parse_endpoint(database.config()))
        self.exclude: frozenset[str] = frozenset()
        self.on_bad_value: Policy = "stop"
        self._slot = f"{database.name}_both"
        self.session.execute("CREATE PUBLICATION tidemark_both FOR ALL TABLES WITH (publish_via_partition_root = true)")
        self.session.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self._slot])

    def execute(self, statement: str, *parameters: object) -> None:
        self.session.execute(statement, parameters or None)

    def table(self, name: str) -> Table:
        (table,) = read_tables(self.session, [("public", name)])
        return table

    def columns(self, table: Table) -> list[Column]:
        """Those that documents have."""
        return [
            replace(column, on_bad_value=self.on_bad_value)
            for column in table.columns
            if column.name not in self.exclude
        ]

    def chunk(self, name: str) -> tuple[list[bytes], list[bytes]]:
        """The captured lines and keys of all rows, in the order of the key."""
        table = self.table(name)
        columns = self.columns(table)
        query = sql.SQL("COPY (SELECT {} FROM public.{} ORDER BY {}) TO STDOUT").format(
            sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
            sql.Identifier(name),
            sql.SQL(", ").join(map(sql.Identifier, table.key)),
        )
        with self.session.cursor() as cursor, cursor.copy(query) as copy:
            rows = [bytes(row) for row in copy]
        if not rows:
            return [], []
        tails, keys = ChunkDecoder(columns, table.key, table=f"public.{name}", quoted_table=f'public."{name}"').decode(
            rows
        )
        # A tail begins with its row's number in the chunk, the last part of loc.
        return [_HEAD + tail.partition(b"]}")[2] for tail in tails.split(TAIL_MARK)], keys.split(KEY_MARK)

    def messages(self) -> Iterator[bytes]:
        """The messages of pgoutput that came since the last call."""
        yield from (
            row[0]
            for row in self.session.execute(
                "SELECT data FROM pg_logical_slot_get_binary_changes("
                "%s, NULL, NULL, 'proto_version', '1', 'publication_names', 'tidemark_both')",
                [self._slot],
            ).fetchall()
        )

    def log(self) -> list[Event]:
        """The row messages that came since the last call, decoded; with keys and without gives the same lines."""
        decoders: dict[bytes, LogDecoder] = {}
        events = []
        for message in self.messages():
            kind = message[:1]
            if kind == b"R":
                # A partition is announced too, beside the root that its rows come as.
                relation = read_relation(message)
                if read_tables(self.session, [(relation.schema, relation.table)]):
                    decoders[message[1:5]] = self._decoder(relation)
            elif kind in b"IUD":
                events.append(decoded(decoders[message[1:5]], message))
        return events

    def both(self, name: str) -> list[Document]:
        """The documents of a table's rows, of which the log has the insertion and nothing else.

        Asserts that chunk and log give the same bytes and the same keys.
        """
        lines, keys = self.chunk(name)
        events = self.log()
        assert sorted(event.lines for event in events) == sorted(lines)
        assert sorted(event.touched[0][0] for event in events) == sorted(keys)
        return [document(line) for line in lines]

    def _decoder(self, relation: Relation) -> LogDecoder:
        table = self.table(relation.table)
        columns = {column.name: column for column in self.columns(table)}
        emitted = [columns.get(column.name) for column in relation.columns]
        name = relation.table
        return compile_log_decoder(
            7, emitted, relation.columns, table.key, table=f"public.{name}", quoted_table=f'public."{name}"'
        )


def decoded(decoder: LogDecoder, message: bytes) -> Event:
    """A row message through both functions of its kind."""
    if message[:1] == b"U":
        lines, touched = decoder.update_tracked(message, SOURCE)
        assert decoder.update(message, SOURCE) == lines
    else:
        tracked, plain = (
            (decoder.insert_tracked, decoder.insert)
            if message[:1] == b"I"
            else (decoder.delete_tracked, decoder.delete)
        )
        lines, key = tracked(message, SOURCE)
        touched = ((key, False),)
        assert plain(message, SOURCE) == lines
    return Event(lines, [document(line) for line in lines.splitlines(keepends=True)], touched)


def document(line: bytes) -> Document:
    """The document of a captured line of binding 7."""
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    captured = orjson.loads(line)["captured"]
    assert captured["binding"] == 7
    body: Document = captured["doc"]
    source = orjson.loads(SOURCE)
    if body["_meta"]["source"]["loc"] != source["loc"]:  # The second event of a message: a change of the key.
        assert body["_meta"]["op"] == "c"
        source["loc"][-1] += 1
    assert body["_meta"]["source"] == source
    return body
