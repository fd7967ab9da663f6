"""A physical standby of a PostgreSQL server that the tests started."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType

import psycopg

from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, Postgres
from tidemark.testing.servers.postgres_server import PostgresServer

SLOT = "standby"


@contextmanager
def standby_of(
    primary: Postgres, settings: dict[str, str] | MappingProxyType[str, str] = MappingProxyType({})
) -> Iterator[Postgres]:
    """A streaming standby with a physical slot of its own, and ``hot_standby_feedback``."""
    server = primary.server
    assert server is not None
    with psycopg.connect(primary.dsn, autocommit=True) as admin:
        admin.execute("SELECT pg_create_physical_replication_slot(%s, true)", [SLOT])
    standby = PostgresServer(primary.binaries)
    try:
        _copy(primary, standby, settings)
        standby.start()
        yield Postgres(
            standby.dsn.replace(standby.password, server.password), primary.version, primary.binaries, standby
        )
    finally:
        standby.close()


def replayed(primary: Database, standby: Postgres) -> None:
    """Waits until the standby has replayed everything that the primary has written."""
    with primary.connect() as one, standby.connect() as other:
        one.execute("CREATE TABLE IF NOT EXISTS replayed ()")  # Its commit flushes all that was written before.
        one.execute("DROP TABLE replayed")
        end = one.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
        assert end is not None
        passed = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        wait_until(lambda: other.execute(passed, [end[0]]).fetchone() == (True,), 30, "the standby has caught up")


def promote(standby: Postgres) -> None:
    """Makes the standby a primary, and waits until it is one."""
    with standby.connect() as admin:
        assert admin.execute("SELECT pg_promote(true, 30)").fetchone() == (True,)


def _copy(primary: Postgres, standby: PostgresServer, settings: dict[str, str] | MappingProxyType[str, str]) -> None:
    assert primary.server is not None and primary.binaries is not None
    subprocess.run(
        [
            primary.binaries / "pg_basebackup",
            *("-D", standby.data, "-h", primary.server.host, "-p", str(primary.server.port), "-U", "postgres"),
            *("-R", "-S", SLOT, "-X", "stream", "-c", "fast", "-w"),
        ],
        env={**os.environ, "PGPASSWORD": primary.server.password},
        check=True,
        capture_output=True,
        timeout=60,
    )
    own = {
        "unix_socket_directories": str(standby.socket_directory),
        "hot_standby_feedback": "on",
        "wal_receiver_status_interval": "1s",
        "wal_retrieve_retry_interval": "100ms",
        **settings,
    }
    with (standby.data / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in own.items())
    if os.geteuid() == 0:
        owner = standby.data.parent.stat()
        for path in [standby.data, *standby.data.rglob("*")]:
            shutil.chown(path, owner.st_uid, owner.st_gid)
