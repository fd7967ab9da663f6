"""Readers in processes of their own: what comes back, how they end, and that nothing of them stays behind."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.captures.chunk_tails import head_of, tails
from tests.captures.postgres.chunk_reads import Table, opened
from tests.captures.postgres.column_chunks import both, logged
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import ChunkRequest
from tidemark.captures.contract.chunk_rows import ColumnRows, Rows
from tidemark.captures.postgres.chunks.column_reader import ColumnChunkReader
from tidemark.captures.postgres.chunks.reader import CopyChunkReader
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.session import ReaderEndpoint
from tidemark.captures.readers.fork_server import ForkServer
from tidemark.captures.readers.reader_process import ReaderProcess
from tidemark.protocol.errors import SourceError, TidemarkError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

pytestmark = pytest.mark.heavy

FILL = (
    "CREATE TABLE t (v int PRIMARY KEY, x text)",
    "INSERT INTO t SELECT i, 'é' || i FROM generate_series(1, 3000) i",
)

REQUEST = ChunkRequest(0, ChunkPlan(None, (), scan=True), 5000)


def reader_of(database: Database, table: Table) -> ReaderProcess:
    endpoint = ReaderEndpoint.of(parse_endpoint(database.config()))
    return ReaderProcess(partial(CopyChunkReader, endpoint), lambda binding: table.target)


@pytest.fixture
def table(database: Database) -> Iterator[Table]:
    with opened(database, *FILL) as made:
        yield made


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody has waited for does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def sessions(table: Table) -> int:
    row = table.session.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemark' AND datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_chunk_is_the_same_from_a_process(database: Database, table: Table) -> None:
    with closing(reader_of(database, table)) as reader:
        for request in (REQUEST, ChunkRequest(0, ChunkPlan(b"7", (b"3", b"5"), True, until=b"12"), 10)):
            far, near = reader.read(request), table.reader.read(request, table.target)
            assert far.request is request
            assert (far.end, far.cursor, far.scanned) == (near.end, near.cursor, near.scanned)
            for rows, others in ((far.rows, near.rows), (far.rereads, near.rereads)):
                assert list(rows.keys) == list(others.keys) and tails(rows) == tails(others)
            assert b"".join(far.rows.messages(head_of(b"head"))) == b"".join(
                b"head" + tail for tail in tails(near.rows)
            )


def test_columns_that_come_before_their_chunk_are_its_rows(database: Database) -> None:
    fill = (
        "CREATE TABLE t (v int PRIMARY KEY, x text)",
        "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) i",
    )
    endpoint = ReaderEndpoint.of(parse_endpoint(database.config()))
    with both(database, *fill) as (columns, documents):
        target = documents.target
        with closing(ReaderProcess(partial(ColumnChunkReader, endpoint), lambda _: target)) as reader:
            near = columns.reader.read(REQUEST, target).rows
            for _ in range(2):
                far = reader.read(REQUEST).rows
                assert isinstance(near, ColumnRows) and isinstance(far, ColumnRows)
                assert len(far.pieces) > 4 and b"".join(far.pieces) == b"".join(near.pieces)
                assert far.size == near.size and list(far.keys) == list(near.keys)
            # What was passed on is not used if a later row is too large to come as columns.
            documents.session.execute("UPDATE t SET x = repeat('x', 9000000) WHERE v = 2900")
            unusual = reader.read(REQUEST).rows
            assert isinstance(unusual, Rows)
            assert logged(documents, unusual) == logged(documents, documents.reader.read(REQUEST, target).rows)
            documents.session.execute("UPDATE t SET x = repeat('x', 1000) WHERE v = 2900")
            again = reader.read(REQUEST).rows
            assert isinstance(again, ColumnRows) and len(again) == 3000
            assert logged(columns, again) == logged(columns, near)


def test_errors_come_back_as_they_are(database: Database, table: Table) -> None:
    with closing(reader_of(database, table)) as reader:
        with pytest.raises(SourceError, match=r"TM-PG-024: a physical scan's stored place"):
            reader.read(ChunkRequest(0, ChunkPlan(b"nowhere", (), True, physical=True), 10))
        assert len(reader.read(REQUEST).rows) == 3000


@pytest.mark.parametrize("opened", [False, True])
def test_a_parent_that_dies_in_the_middle_of_a_request(opened: bool, capfd: pytest.CaptureFixture[str]) -> None:
    first = pickle.dumps(_Broken)
    sent = first + pickle.dumps((REQUEST, None))[:-1] if opened else first[:-1]
    (requests, parent), (answered, answers) = os.pipe(), os.pipe()
    with closing(ForkServer.started([sys.executable, "-m", "tidemark.captures.readers.reader_process"])) as server:
        pid = server.fork(requests, answers)
        for each in (requests, answers):
            os.close(each)
        os.write(parent, sent)
        os.close(parent)
        assert server.wait(pid) == 0
    os.close(answered)
    assert capfd.readouterr().err == ""


DEAF = """
from functools import partial
from tidemark.captures.readers.fork_server import serve
from tidemark.captures.readers.reader_process import work
serve(0, partial(work, end_seconds=0.2))
"""


class _Deaf:
    """Cannot be canceled: its server does not answer."""

    def cancel(self) -> None:
        threading.Event().wait()


def test_a_parent_that_dies_while_the_server_does_not_answer() -> None:
    (requests, parent), (answered, answers) = os.pipe(), os.pipe()
    with closing(ForkServer.started([sys.executable, "-c", DEAF])) as server:
        pid = server.fork(requests, answers)
        for each in (requests, answers):
            os.close(each)
        os.write(parent, pickle.dumps(_Deaf))
        with os.fdopen(answered, "rb") as opening:
            assert pickle.load(opening) is None, "it is open"
        os.close(parent)
        assert server.wait(pid) == -signal.SIGALRM


def test_a_defect_names_its_place_and_no_value(database: Database, table: Table) -> None:
    endpoint = ReaderEndpoint.of(parse_endpoint(database.config()))
    defect = r"TM-CAP-002: unexpected KeyError in a reader process at \w+\.py:\d+$"
    with (
        closing(ReaderProcess(partial(CopyChunkReader, endpoint), lambda binding: _Broken())) as reader,
        pytest.raises(TidemarkError, match=defect),
    ):
        reader.read(REQUEST)


class _Broken:
    """What a process would have to know of a table, and fails on."""

    def lock(self) -> None:
        raise KeyError("a value")


def test_a_reader_that_cannot_connect_says_why(database: Database, table: Table) -> None:
    endpoint = ReaderEndpoint.of(parse_endpoint({**database.config(), "database": "nowhere"}))
    with pytest.raises(SourceError, match="TM-PG-003"):
        ReaderProcess(partial(CopyChunkReader, endpoint), lambda binding: table.target)


def test_a_process_that_is_killed_is_an_error_that_passes(database: Database, table: Table) -> None:
    with closing(reader_of(database, table)) as reader:
        os.kill(reader.pid, signal.SIGKILL)
        with pytest.raises(TidemarkError, match=r"TM-CAP-005: a reader process was killed by signal 9") as failure:
            reader.read(REQUEST)
        assert failure.value.entry.policy.value == "retry"
        reader.cancel()  # Of nobody: harmless.


def test_a_closed_reader_leaves_nothing_behind(database: Database, table: Table) -> None:
    before = sessions(table)
    with closing(reader_of(database, table)) as reader:
        assert sessions(table) == before + 2
    assert not alive(reader.pid)
    wait_until(lambda: sessions(table) == before, 60, "the reader's sessions are over")


def test_a_read_that_waits_is_canceled(database: Database, table: Table) -> None:
    with closing(reader_of(database, table)) as reader, database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        failures: list[TidemarkError] = []

        def read() -> None:
            try:
                reader.read(REQUEST)
            except TidemarkError as error:
                failures.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        waiting = """
            SELECT count(*) FROM pg_locks
            WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
        wait_until(lambda: table.session.execute(waiting).fetchone() == (1,), 60, "the reader waits")
        reader.cancel()
        thread.join(3)
        assert not thread.is_alive() and failures[0].code == "TM-PG-019"


def test_the_password_is_in_no_argument_and_no_environment(database: Database, table: Table) -> None:
    password = str(database.config()["password"])
    assert len(password) > 8
    with closing(reader_of(database, table)) as reader:
        shown = subprocess.run(["ps", "eww", "-p", str(reader.pid)], capture_output=True, text=True, check=True).stdout
    assert "tidemark.captures.readers.reader_process" in shown and password not in shown


PARENT = """
import sys
from contextlib import nullcontext
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import ChunkRequest
from tidemark.captures.readers.reader_process import forked_readers
from tests.captures.readers.test_reader_process import reader_of, opened
from tidemark.testing.servers.postgres import Database
with forked_readers() if sys.argv[2] == "forked" else nullcontext():
    database = Database(sys.argv[1], 0)
    with opened(database) as table:
        reader = reader_of(database, table)
        print(reader.pid, flush=True)
        reader.read(ChunkRequest(0, ChunkPlan(None, (), True, where="pg_sleep(20) IS NOT NULL"), 10))
"""


@dataclass(frozen=True)
class Parent:
    """A process, and its reader's id; how many sessions there were before."""

    process: subprocess.Popen[str]
    reader: int
    sessions: int

    @property
    def fork_server(self) -> int:
        command = ["ps", "-o", "ppid=", "-p", str(self.reader)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.fixture(params=["forked", "started"])
def parent(request: pytest.FixtureRequest, database: Database, table: Table) -> Iterator[Parent]:
    """One whose reader reads a chunk that takes long."""
    before = sessions(table)
    command = [sys.executable, "-c", PARENT, database.dsn, request.param]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        reader = int(process.stdout.readline())
        running = """
            SELECT count(*) FROM pg_stat_activity
            WHERE query LIKE 'COPY%' AND state = 'active' AND datname = current_database()"""
        wait_until(lambda: table.session.execute(running).fetchone() == (1,), 60, "the chunk is being read")
        yield Parent(process, reader, before)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_parent_that_is_killed_takes_its_readers_and_their_queries_along(parent: Parent, table: Table) -> None:
    server = parent.fork_server
    assert server != parent.process.pid and alive(server)
    parent.process.kill()
    parent.process.wait(60)
    wait_until(lambda: not alive(parent.reader) and not alive(server), 60, "the reader and its server are gone")
    wait_until(lambda: sessions(table) == parent.sessions, 60, "the sessions are over")


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_reader_holds_nothing_of_its_parent(parent: Parent) -> None:
    def held(pid: int) -> set[str]:
        return {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir() if each.name != "2"}

    of_the_parent = held(parent.process.pid)
    stdout = str(Path(f"/proc/{parent.process.pid}/fd/1").readlink())
    assert stdout.startswith("pipe:") and any(each.startswith("socket:") for each in of_the_parent)
    for pid in (parent.reader, parent.fork_server):
        assert not [each for each in held(pid) & of_the_parent if each == stdout or each.startswith("socket:")]


def test_a_fork_server_that_was_killed_is_an_error_that_passes() -> None:
    with closing(ForkServer.started([sys.executable, "-m", "tidemark.captures.readers.reader_process"])) as server:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(TidemarkError, match="TM-CAP-005: the process that starts readers has ended") as failure:
            server.fork(0, 1)
        assert server.ended and failure.value.entry.policy.value == "retry"


def test_what_the_system_refuses_is_an_error_that_passes_and_ends_no_server() -> None:
    with pytest.raises(TidemarkError, match="TM-CAP-005: a reader process cannot be started: No such file"):
        ForkServer.started(["/nowhere/python"])
    with closing(ForkServer.started([sys.executable, "-m", "tidemark.captures.readers.reader_process"])) as server:
        for _ in range(2):
            with pytest.raises(TidemarkError, match="TM-CAP-005") as failure:
                server.wait(os.getpid())  # No child of it.
            assert failure.value.entry.policy.value == "retry"
        assert not server.ended


LOST_SERVER = """
import os, signal, sys
from contextlib import closing
from tidemark.captures.readers.reader_process import forked_readers
from tests.captures.readers.test_reader_process import REQUEST, opened, reader_of
from tidemark.testing.servers.postgres import Database
with forked_readers() as server:
    database = Database(sys.argv[1], 0)
    with opened(database) as table:
        with closing(reader_of(database, table)) as reader:
            os.kill(server.pid, signal.SIGKILL)
            print(len(reader.read(REQUEST).rows))
        with closing(reader_of(database, table)) as reader:
            print(len(reader.read(REQUEST).rows))
"""


def test_readers_outlive_the_process_that_forked_them_and_new_ones_need_it_not(
    database: Database, table: Table
) -> None:
    command = [sys.executable, "-c", LOST_SERVER, database.dsn]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout.split(), ended.stderr) == (["3000", "3000"], "")
