"""The tables that the random workload writes to: one of each kind of key, and values that are easily got wrong."""

from __future__ import annotations

from tests.servers.postgres import Connection

TABLES: dict[str, list[str]] = {
    "public.accounts": ["id"],
    "public.entries": ["account", "line"],
    "public.labels": ["code"],
}
"""The tables by ``schema.table``, each with its key."""

BIG = 3200
"""Characters of a value that PostgreSQL stores out of line (over 2 kB, not compressed): an UPDATE that leaves it as it
is does not write it to the log."""

_DDL = """
CREATE TABLE accounts (
    id bigint PRIMARY KEY, name text NOT NULL, balance numeric(14,2) NOT NULL, active boolean, settings jsonb,
    opened timestamptz NOT NULL, big text
);
ALTER TABLE accounts ALTER COLUMN big SET STORAGE EXTERNAL;
CREATE TABLE entries (
    account bigint, line integer, amount numeric, note text, at timestamp, day date, PRIMARY KEY (account, line)
);
CREATE TABLE labels (code text PRIMARY KEY, value double precision, raw bytea, tags text[], big jsonb);
ALTER TABLE labels ALTER COLUMN big SET STORAGE EXTERNAL;
"""


def create_tables(connection: Connection, rows: int) -> None:
    """Makes the tables and fills each with ``rows`` rows, on the server."""
    connection.execute(_DDL)
    connection.execute(
        """
        INSERT INTO accounts
        SELECT n, 'account ' || n, n * 1.25, n % 3 = 0, jsonb_build_object('n', n, 'ratio', n / 7.0, 'none', NULL),
               timestamptz '2024-02-29 23:59:59.999999+05:30' + n * interval '1 second',
               CASE WHEN n % 5 = 0 THEN repeat(md5(n::text), %(big)s / 32) END
        FROM generate_series(1, %(rows)s) AS n
        """.replace("%(big)s", str(BIG)).replace("%(rows)s", str(rows))
    )
    connection.execute(
        f"""
        INSERT INTO entries
        SELECT n / 4, n % 4, CASE n % 5 WHEN 0 THEN 'NaN' ELSE n * 0.001 END, CASE WHEN n % 2 = 0 THEN 'Zoë ☃ "\\' END,
               timestamp '1999-12-31 12:00:00.1' + n * interval '1 minute', date '0001-01-01' + n
        FROM generate_series(1, {rows}) AS n
        """
    )
    connection.execute(
        f"""
        INSERT INTO labels
        SELECT 'label ' || n, n / 3.0::double precision, decode(md5(n::text), 'hex'),
               CASE WHEN n % 4 > 0 THEN array_fill('tag,'::text, ARRAY[n % 4]) || NULL::text END,
               CASE WHEN n % 7 = 0 THEN jsonb_build_array(repeat(md5(n::text), {BIG // 32}), 1.50, NULL) END
        FROM generate_series(1, {rows}) AS n
        """
    )
