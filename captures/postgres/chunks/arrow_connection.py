"""A connection whose rows come as Arrow's columns: ADBC's driver for PostgreSQL, without pyarrow.

The driver reads by binary COPY, and takes the connection string of libpq. Its low level is used: the rest of its
package asks for pyarrow, which is larger than the whole connector.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql
from adbc_driver_manager import AdbcConnection, AdbcStatement
from adbc_driver_postgresql import StatementOptions
from nanoarrow.c_array import CArray, allocate_c_array
from nanoarrow.c_schema import CSchema, c_schema

from tidemark.captures.postgres.chunks.copy_rows import ChunkLimits, chunk_failure
from tidemark.captures.postgres.server.session import ReaderEndpoint, connection_failure
from tidemark.protocol.errors import SourceError


class StreamBroken(Exception):
    """No more rows come: the statement failed, was canceled, or ran into its timeout; or the connection broke.

    The rows that came before are right.
    """


class ArrowConnection:
    """A connection that one thread reads from, while another may ``cancel``. Raises as ``connect``.

    Attributes:
        canceled: Somebody called ``cancel`` since this was set to False.
    """

    def __init__(self, endpoint: ReaderEndpoint, limits: ChunkLimits) -> None:
        self.canceled = False
        self._watchdog = _Watchdog(limits.answer_seconds)
        with contextlib.ExitStack() as undo:
            undo.callback(self._watchdog.close)
            try:
                with self._watchdog.waiting():
                    self._database = adbc_driver_postgresql.connect(endpoint.rows_conninfo)
                    undo.callback(self._database.close)
                    self._connection = AdbcConnection(self._database)
            except adbc_driver_manager.Error as error:
                raise connection_failure(endpoint, str(error)) from None
            undo.pop_all()
        self._watchdog.connected()

    def execute(self, query: str, name: str) -> None:
        """Runs a statement without values of rows in it, and drops its rows. Raises as ``CopyConnection``."""
        try:
            with AdbcStatement(self._connection) as statement, self._watchdog.waiting():
                statement.set_sql_query(query)
                statement.execute_update()
        except adbc_driver_manager.Error as error:
            raise _failure(error, name) from None

    def text(self, query: str, name: str) -> str:
        """The one text that a query selects; raises as ``execute``."""
        try:
            with self.query(query, batch_bytes=1) as (_, arrays):
                return b"".join(bytes(array.view().child(0).buffer(2)) for array in arrays).decode()
        except StreamBroken as error:
            raise chunk_failure("", str(error), name) from None

    @contextlib.contextmanager
    def query(self, query: str, batch_bytes: int) -> Iterator[tuple[CSchema, Iterator[CArray]]]:
        """The schema and the record batches of a query, each of about ``batch_bytes``, or of one row.

        Raises:
            StreamBroken: Here, or from the iterator.
        """
        try:
            with AdbcStatement(self._connection) as statement:
                statement.set_options(**{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(batch_bytes)})
                statement.set_sql_query(query)
                with self._watchdog.waiting():
                    stream, _ = statement.execute_query()
                try:
                    yield c_schema(stream), self._arrays(stream)
                finally:
                    stream.release()
        except adbc_driver_manager.Error as error:
            raise StreamBroken(f"SQLSTATE {error.sqlstate}") from None

    def end_query(self, arrays: Iterator[CArray]) -> None:
        """Ends a query before its last row: has the server send no more, and drops what is on its way."""
        self._connection.cancel()
        with contextlib.suppress(StreamBroken):
            for _ in arrays:
                pass

    def cancel(self) -> None:
        """Ends the statement that runs, from any thread."""
        self.canceled = True
        with contextlib.suppress(adbc_driver_manager.Error):  # A cancel request that does not arrive changes nothing.
            self._connection.cancel()

    def close(self) -> None:
        self._watchdog.close()
        with contextlib.suppress(adbc_driver_manager.Error):
            self._connection.close()
        with contextlib.suppress(adbc_driver_manager.Error):
            self._database.close()

    def _arrays(self, stream: adbc_driver_manager.ArrowArrayStreamHandle) -> Iterator[CArray]:
        # nanoarrow's own loop would keep the thread that cancels from running; a call by ctypes lets it.
        schema, of = c_schema(stream), _Stream.from_address(stream.address)
        while True:
            array = allocate_c_array(schema)
            with self._watchdog.waiting():
                failed = of.get_next(stream.address, array._addr())
            if failed:
                raise StreamBroken("the server ended the statement, or the connection")
            if not array.is_valid():
                return
            yield array


class _Watchdog:
    """Breaks the connection of a server that is silent for too long: the driver would wait without end."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._others = _sockets()
        self._own: frozenset[int] | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside, an answer is waited for."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._since = None

    def connected(self) -> None:
        """The sockets that have been opened since the beginning are the connection's."""
        self._own = _sockets() - self._others

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(self._seconds / 4):
            since = self._since
            if since is not None and time.monotonic() - since > self._seconds:
                for descriptor in _sockets() - self._others if self._own is None else self._own:
                    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as silent:
                        silent.shutdown(socket.SHUT_RDWR)


class _Stream(ctypes.Structure):
    """``struct ArrowArrayStream`` (Apache Arrow, "The Arrow C stream interface")."""

    _fields_ = (
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


def _failure(error: adbc_driver_manager.Error, name: str) -> SourceError:
    # Not the error's own message, which repeats the statement.
    details: dict[Any, bytes] = dict(error.details)
    message = details.get(b"PG_DIAG_MESSAGE_PRIMARY", b"").decode("utf-8", "replace")
    return chunk_failure(error.sqlstate or "", message or "the connection broke", name)


def _sockets() -> frozenset[int]:
    """The descriptors of this process that are sockets."""
    found = set()
    for each in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):  # The one by which the folder is read.
            if stat.S_ISSOCK(os.fstat(int(each.name)).st_mode):
                found.add(int(each.name))
    return frozenset(found)
