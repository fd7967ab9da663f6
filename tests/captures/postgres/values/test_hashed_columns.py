"""``hash``: documents have the salted SHA-256 of a column's text, from chunks and from the log alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.captures.postgres.captured_table import before, captured, columns
from tidemark.captures.postgres.database import PostgresDatabase
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding
from tidemark.testing.servers.postgres import Database

SALT = {"hash_salt": "päper"}
TABLE = """
    CREATE TABLE t (id int PRIMARY KEY, mail text, n numeric(10,2), tags text[], at timestamptz, plain text, big text);
    ALTER TABLE t REPLICA IDENTITY FULL;
    INSERT INTO t VALUES (1, 'a"\\b@é', 1.5, '{a,NULL}', '2024-01-15 10:00+02', 'kept',
                          (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 300) n)),
                         (2, NULL, NULL, NULL, NULL, NULL, '');
"""
HASHED = ["mail", "n", "tags", "at", "big"]


def sql_hashes(database: Database) -> list[dict[str, Any]]:
    """The rows with hashes that SQL makes, of texts as the connector's sessions print them."""
    hashed = ", ".join(
        f"encode(sha256(convert_to('päper' || {name}::text, 'UTF8')), 'hex') AS {name}" for name in HASHED
    )
    with database.connect(options="-c timezone=UTC -c datestyle=ISO") as session:
        found = session.execute(f"SELECT to_json(r) FROM (SELECT id, {hashed}, plain FROM t ORDER BY id) r").fetchall()
    return [row[0] for row in found]


def test_chunk_and_log_have_the_same_hashes(database: Database) -> None:
    with database.connect() as session:
        session.execute(TABLE)
        with captured(database, "public", "t", config=SALT, hash=HASHED) as table:
            rows = table.chunks()
            assert [json.loads(row) for row in rows.values()] == sql_hashes(database)
            session.execute("UPDATE t SET id = id")
            updated = table.log()
            assert [columns(line) for line in updated] == [before(line) for line in updated] == list(rows.values())
            session.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT")
            session.execute("UPDATE t SET id = id WHERE id = 1")
            (line,) = table.log()
            assert b'"unchanged":["big"]' in line
            assert json.loads(columns(line)) == {n: v for n, v in sql_hashes(database)[0].items() if n != "big"}
            schema = table.source.tables[0].document_schema["properties"]
            assert {name: schema[name]["type"] for name in HASHED} == {name: ["string", "null"] for name in HASHED}
            assert "SHA-256" in schema["mail"]["description"] and "format" not in schema["n"]


@pytest.mark.parametrize(
    ("resource", "config", "said"),
    [
        ({"hash": ["mail"]}, {}, r"TM-PG-023.*public\.t: .*hash_salt"),
        ({"hash": ["id"]}, SALT, r"TM-PG-022.*public\.t: the key column id cannot be hashed"),
        ({"hash": ["male"]}, SALT, r"TM-PG-022.*public\.t: hash names unknown columns: male"),
    ],
)
def test_what_cannot_be_hashed(database: Database, resource: Any, config: Any, said: str) -> None:
    with database.connect() as session:
        session.execute("CREATE TABLE t (id int PRIMARY KEY, mail text)")
    binding = Binding(resource_config={"schema": "public", "table": "t", **resource}, state_key="t")
    with pytest.raises(SourceError, match=said):
        PostgresDatabase().validate({**database.config(), **config}, [binding])


def test_nothing_is_captured_without_a_salt(database: Database) -> None:
    """Also where nobody validated the configuration."""
    with database.connect() as session:
        session.execute("CREATE TABLE t (id int PRIMARY KEY, mail text)")
    binding = Binding(resource_config={"schema": "public", "table": "t", "hash": ["mail"]}, state_key="t")
    with pytest.raises(SourceError, match="TM-PG-023"):
        PostgresDatabase().open(database.config(), [binding])
