"""Whether the server takes a condition that a person wrote, before a scan begins with it."""

from __future__ import annotations

import psycopg
from psycopg import sql

from tidemark.captures.postgres.server.session import asking
from tidemark.captures.postgres.tables.scan_target import ScanTarget


def refused_condition(session: psycopg.Connection, target: ScanTarget, where: str) -> str:
    """Why it does not; empty if it does, or if somebody locks the table. The server plans the scan, and reads no row.

    Raises:
        SourceError: The server cannot be asked now.
    """
    with asking(f"planning a scan of {target.name}"):
        try:
            with session.transaction():
                session.execute("SET TRANSACTION READ ONLY")
                if (operators := target.operators()) is not None:
                    session.execute(operators.as_bytes(session))
                for query in target.conditioned(where):
                    # What is prepared is one statement: a condition cannot bring another one with it.
                    session.execute(sql.SQL("EXPLAIN {}").format(query), prepare=True)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
            pass
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            return error.diag.message_primary or type(error).__name__
    return ""
