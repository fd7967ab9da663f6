"""Reads chunks: COPY of a key range inside one short REPEATABLE READ transaction, with its fence.

psycopg's cursor would cost twice as much per row; here libpq's rows go straight to the generated decoder.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import pq, sql

from backfill.keys import Key, key_texts
from captures.interface import Chunk, ChunkRequest, Rows
from captures.postgres.config import EndpointConfig
from captures.postgres.fence import FenceTaker
from captures.postgres.rows import ChunkDecoder
from captures.postgres.session import connect, connect_pq, error_text, refusal
from captures.postgres.snapshot import Snapshot, SnapshotFence
from protocol.errors import SourceError

DECODE_ROWS = 500
"""Rows handed to the decoder at once: enough to make the call cheap, few enough to let the log's thread in."""

FIRST_NORMAL_OID = 16384
"""Types below are the server's own (transam.h)."""

CHUNK_BYTES = 16 * 1024 * 1024
"""A chunk that grows over this is ended early: memory must not follow the width of rows."""


@dataclass(frozen=True, slots=True)
class ScanTarget:
    """What a chunk of one table selects: quoted SQL for its columns and keys, and the decoder of its rows.

    ``types`` are the oids that the decoder expects of the columns; a domain counts as what it is based on.
    """

    name: str
    oid: int
    table: sql.Composable
    select: sql.Composable
    types: tuple[int, ...]
    key: tuple[sql.Composable, ...]
    key_types: tuple[str, ...]
    key_oids: tuple[int, ...]
    where: str | None
    decode: ChunkDecoder

    def begin(self) -> sql.Composable:
        """Opens the transaction, with the table locked before its snapshot is taken.

        To a snapshot that is older than an ALTER TABLE which rewrote the table, the table is empty (PostgreSQL docs,
        13.6 "Caveats"): the scan would take that for its end.
        """
        return sql.SQL("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; LOCK TABLE {} IN ACCESS SHARE MODE").format(
            self.table
        )

    def operators(self) -> sql.Composable | None:
        """Lets the transaction find the operators by which keys of types that extensions brought are ordered.

        Without those of citext, say, keys would be compared as text, and sorted as citext: rows would be left out.
        """
        oids = [oid for oid in self.key_oids if oid >= FIRST_NORMAL_OID]
        if not oids:
            return None
        return sql.SQL(
            "SELECT set_config('search_path', "
            "'pg_catalog, ' || string_agg(DISTINCT quote_ident(n.nspname), ', '), true)"
            " FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN ({})"
        ).format(sql.SQL(", ").join(map(sql.Literal, oids)))

    def shape(self) -> sql.Composable:
        """A query without rows that has the columns of the others."""
        return sql.SQL("{} LIMIT 0").format(self.select)

    def scan(self, cursor: Key | None, limit: int) -> sql.Composable:
        """The keyset query: rows after ``cursor`` in key order."""
        conditions = self._where()
        if cursor is not None:
            conditions.append(sql.SQL("{} > {}").format(_row(self.key), self._literal(cursor)))
        return sql.SQL("{}{} ORDER BY {} LIMIT {}").format(
            self.select, _conjunction(conditions), sql.SQL(", ").join(self.key), sql.Literal(limit)
        )

    def rows(self, keys: Sequence[Key]) -> sql.Composable:
        """The query for rows by key, whether or not they meet the condition that limits the scan."""
        listed = sql.SQL(", ").join(map(self._literal, keys))
        return sql.SQL("{} WHERE {} IN ({})").format(self.select, _row(self.key), listed)

    def _where(self) -> list[sql.Composable]:
        # The operator's own SQL, as the configuration promises.
        return [sql.SQL("({})").format(sql.SQL(self.where))] if self.where else []

    def _literal(self, key: Key) -> sql.Composable:
        # The server wrote these texts and reads them back by the column's own type: no collation of ours is involved.
        parts = [
            sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(name))
            for text, name in zip(key_texts(key), self.key_types, strict=True)
        ]
        return _row(parts)


def _row(parts: Sequence[sql.Composable]) -> sql.Composable:
    return sql.SQL("({})").format(sql.SQL(", ").join(parts))


def _conjunction(conditions: Sequence[sql.Composable]) -> sql.Composable:
    return sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL("")


class CopyChunkReader:
    """Reads chunks over one connection for the rows and one for fences.

    Args:
        target: Gives the scan target of a binding as it is now; it changes when columns do.
    """

    def __init__(self, config: EndpointConfig, target: Callable[[int], ScanTarget]) -> None:
        self._target = target
        self._connection = connect_pq(config, replication=False)
        self._session = connect(config)
        self._fences = FenceTaker(self._session, read_only=config.read_only)

    def read(self, request: ChunkRequest) -> Chunk:
        started = time.monotonic()
        target = self._target(request.binding)
        tails: list[bytes] = []
        keys: list[Key] = []
        again: tuple[list[bytes], list[Key]] = ([], [])
        end = False
        try:
            self._execute(target.begin().as_bytes(self._session), target.name)
            if (operators := target.operators()) is not None:
                self._execute(operators.as_bytes(self._session), target.name)
            snapshot = Snapshot.parse(self._value(b"SELECT pg_current_snapshot()", target.name))
            fence = SnapshotFence(snapshot, self._fences.high())
            self._check_shape(target)
            # Rereads come first: a scan that is ended early takes its transaction with it. They are few, and a row that
            # is not found counts as deleted, so they are never ended early.
            if request.rereads:
                self._copy(target, target.rows(request.rereads), *again, limit=None)
            if request.scan:
                scan = target.scan(request.cursor, request.limit)
                whole = self._copy(target, scan, tails, keys, limit=CHUNK_BYTES)
                end = whole and len(tails) < request.limit
        finally:
            if self._connection.status == pq.ConnStatus.OK:
                # Also after an error: the transaction must not stay open a moment longer than the chunk.
                self._connection.exec_(b"ROLLBACK")
        return Chunk(
            request=request,
            fence=fence,
            rows=Rows(keys, tails),
            end=end,
            rereads=Rows(again[1], again[0]),
            seconds=time.monotonic() - started,
        )

    def cancel(self) -> None:
        with contextlib.suppress(psycopg.Error):  # A cancel request that does not arrive changes nothing.
            self._connection.get_cancel().cancel()

    def close(self) -> None:
        self._connection.finish()
        self._session.close()

    def _execute(self, query: bytes, name: str) -> pq.abc.PGresult:
        result = self._connection.exec_(query)
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            raise self._failure(result, name)
        return result

    def _check_shape(self, target: ScanTarget) -> None:
        """The lock keeps the table as it is now; the decoder is for what the log, or the catalog, showed last."""
        result = self._execute(target.shape().as_bytes(self._session), target.name)
        types = tuple(result.ftype(column) for column in range(result.nfields))
        if types != target.types or result.ftable(0) != target.oid:
            raise SourceError("TM-PG-030", f"{target.name} was altered or made again, and the log has not shown it yet")

    def _value(self, query: bytes, name: str) -> str:
        value = self._execute(query, name).get_value(0, 0)
        return value.decode() if value is not None else ""

    def _copy(
        self, target: ScanTarget, query: sql.Composable, tails: list[bytes], keys: list[Key], *, limit: int | None
    ) -> bool:
        """Appends the rows of ``query``; False when it was ended early because it came to more than ``limit`` bytes."""
        connection = self._connection
        connection.send_query(b"COPY (" + query.as_bytes(self._session) + b") TO STDOUT")
        rows: list[bytes] = []
        size = 0
        whole = True
        started = self._next_result(target.name)
        if started is None or started.status != pq.ExecStatus.COPY_OUT:
            failure = self._failure(started, target.name)
            self._drain()
            raise failure
        receive = connection.get_copy_data
        while True:
            length, data = receive(1)
            if length > 0:
                if not whole:
                    continue
                rows.append(bytes(data))
                if len(rows) >= DECODE_ROWS or length > CHUNK_BYTES // 8:
                    size += self._decode(target, rows, tails, keys)
                    if limit is not None and size > limit:
                        whole = False
                        self.cancel()
            elif length == 0:
                self._wait()
            else:
                break
        ended = self._next_result(target.name)
        self._drain()
        if whole and (ended is None or ended.status != pq.ExecStatus.COMMAND_OK):
            raise self._failure(ended, target.name)
        if whole:
            self._decode(target, rows, tails, keys)
        return whole

    @staticmethod
    def _decode(target: ScanTarget, rows: list[bytes], tails: list[bytes], keys: list[Key]) -> int:
        size = sum(map(len, rows))
        some_tails, some_keys = target.decode(rows)
        tails += some_tails
        keys += some_keys
        rows.clear()
        return size

    def _next_result(self, name: str) -> pq.abc.PGresult | None:
        # Blocking calls of libpq would hold up every other thread: wait for the socket instead.
        while self._connection.is_busy():
            self._wait()
        return self._connection.get_result()

    def _drain(self) -> None:
        while self._connection.status == pq.ConnStatus.OK:
            if self._next_result("") is None:
                return

    def _wait(self) -> None:
        select.select([self._connection.socket], [], [])
        try:
            self._connection.consume_input()
        except psycopg.OperationalError as error:
            raise SourceError(
                "TM-PG-020", f"the chunk reader's connection broke: {' '.join(str(error).split())}"
            ) from None

    def _failure(self, result: pq.abc.PGresult | None, name: str) -> SourceError:
        if result is None or self._connection.status != pq.ConnStatus.OK:
            return SourceError("TM-PG-020", f"reading a chunk of {name}: {error_text(self._connection)}")
        state, text = refusal(result)
        code = {"42501": "TM-PG-008", "42P01": "TM-PG-007"}.get(state, "TM-PG-019")
        return SourceError(code, f"reading a chunk of {name}: {text} (SQLSTATE {state})")
