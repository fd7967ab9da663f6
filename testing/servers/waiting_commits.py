"""Commits that wait for a synchronous standby which never answers: they are in the log, and nobody sees them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Connection, Postgres


def waiting(admin: Connection) -> int:
    """How many commits wait."""
    row = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchone()
    return int(row[0]) if row else 0


def release(admin: Connection) -> None:
    """Lets all commits go on."""
    admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
    admin.execute("SELECT pg_reload_conf()")


@contextmanager
def commits_wait(server: Postgres) -> Iterator[Connection]:
    """Inside, all commits of the server wait until they are released; gives a session that changes nothing.

    A server takes such a setting in its own time. So a commit is tried until one waits, which is then cancelled.
    """
    with server.connect() as admin, ThreadPoolExecutor(1) as thread:
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'ghost'")
        admin.execute("SELECT pg_reload_conf()")
        try:
            trial = thread.submit(_commit, server)

            def one_waits() -> bool:
                nonlocal trial
                if trial.done():
                    trial.result()
                    trial = thread.submit(_commit, server)
                return waiting(admin) == 1

            wait_until(one_waits, 60, "a commit waits for the standby")
            admin.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            trial.result(timeout=60)
            yield admin
        finally:
            release(admin)


def _commit(server: Postgres) -> None:
    with server.connect(autocommit=False) as connection:
        connection.execute("CREATE TABLE uncaptured ()")
        connection.execute("DROP TABLE uncaptured")
