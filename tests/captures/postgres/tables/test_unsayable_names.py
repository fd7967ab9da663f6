"""Names with bytes that stand for no character, in databases whose encoding is not UTF-8."""

from __future__ import annotations

import pytest

from tests.captures.impatient import aside_of, impatient
from tests.captures.postgres.encoded_databases import InEncoding, with_bytes
from tests.captures.session import Json, Session, bindings, session, unary
from tests.captures.source_tables import endpoint, prepare, table_rows
from tidemark.testing.servers.postgres import Database

CODE = "TM-PG-043"
BAD = {"WIN1252": "7881", "SQL_ASCII": "7881", "EUC_JP": "78a9a1"}
"""By encoding, an x and bytes that stand for no character, and are stored."""

TABLES = ("users", "columns", "labels", "attributes", "keys", "parts", "comments")
FILL = "INSERT INTO {} (id) SELECT generate_series(1, 5)"


def create(database: Database, name: str) -> None:
    """One table for each place in which such a name can be; in ``comments`` nothing keeps it from being captured."""
    prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name text)",
        with_bytes("CREATE TABLE columns (id int PRIMARY KEY, %I text, z int)", name),
        with_bytes("CREATE TYPE mood AS ENUM ('good', %L)", name),
        "CREATE TABLE labels (id int PRIMARY KEY, mood mood DEFAULT 'good')",
        with_bytes("CREATE TYPE pair AS (one int, %I int)", name),
        "CREATE TABLE attributes (id int PRIMARY KEY, pairs pair[])",
        with_bytes("CREATE DOMAIN %I AS int", "64" + name),
        with_bytes("CREATE TABLE keys (id %I PRIMARY KEY)", "64" + name),
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        with_bytes("CREATE TABLE %I PARTITION OF parts FOR VALUES FROM (0) TO (100)", name),
        with_bytes("CREATE TABLE comments (id int CONSTRAINT %I PRIMARY KEY, name text)", "69" + name),
        with_bytes("COMMENT ON TABLE comments IS %L", name),
        with_bytes("COMMENT ON COLUMN comments.id IS %L", name),
        *(FILL.format(table) for table in TABLES),
    )


def shown(name: str) -> str:
    """As messages show it."""
    return "x" + "".join(f"\\x{name[at : at + 2]}" for at in range(2, len(name), 2))


@pytest.mark.parametrize("encoding", BAD)
def test_discovery_names_what_nobody_can_name_and_finds_the_others(in_encoding: InEncoding, encoding: str) -> None:
    database = in_encoding(encoding)
    name = BAD[encoding]
    create(database, name)
    prepare(
        database,
        with_bytes("CREATE TABLE %I (id int PRIMARY KEY)", "79" + name),
        with_bytes("CREATE SCHEMA %I", name),
        with_bytes("CREATE TABLE %I.inside (id int PRIMARY KEY)", name),
    )
    status, messages, logs = unary({"discover": {"config": endpoint(database)}})
    assert status == 0, logs
    found = {binding["resourceConfig"]["table"]: binding for binding in messages[-1]["discovered"]["bindings"]}
    assert found.keys() == set(TABLES)
    assert found["comments"]["documentSchema"]["description"] == shown(name)
    assert found["labels"]["documentSchema"]["properties"]["mood"]["x-enum"] == ["good"]
    refused = {line["message"].split(":")[0]: line for line in logs if line.get("fields", {}).get("code") == CODE}
    assert refused.keys() == {f"public.y{shown(name)}", f"{shown(name)}.inside"}, logs
    prepare(database, *(line["fields"]["remedy"].removeprefix("Run: ") for line in refused.values()))
    status, messages, logs = unary({"discover": {"config": endpoint(database)}})
    again = {tuple(binding["resourcePath"]) for binding in messages[-1]["discovered"]["bindings"]}
    assert again >= {("public", "new_name"), ("new_name", "inside")}, logs


def test_tables_are_set_aside_by_name_until_they_have_another(in_encoding: InEncoding) -> None:
    database = in_encoding("WIN1252")
    create(database, BAD["WIN1252"])
    bound = bindings(*(f"public.{table}" for table in (*TABLES, "таблица")))
    bad = ("columns", "attributes", "keys", "parts")
    with session(endpoint(database), bound, command=impatient("tidemark.connectors.postgres", 0.5)) as capture:
        capture.until(lambda c: all(aside_of(c, table) for table in (*bad, "таблица")))
        reasons = {table: _aside(capture, table) for table in bad}
        assert {reason["code"] for reason in reasons.values()} == {CODE}
        for table, words in {
            "columns": "public.columns: the name of column x\\x81 has",
            "attributes": "public.attributes: the name of attribute x\\x81 of type public.pair, which",
            "keys": 'public.keys: the name of type public."dx\\x81" of the key column id has',
            "parts": "public.parts: the name of partition public.x\\x81 has",
        }.items():
            assert reasons[table]["text"].startswith(words)
        assert _aside(capture, "таблица")["code"] == "TM-PG-007"
        prepare(database, *(FILL.format(t).replace("1, 5", "6, 9") for t in TABLES))
        for table in set(TABLES).difference(bad):
            capture.until(lambda c, t=table: len(c.rows(TABLES.index(t))) == 9)  # type: ignore[misc]
        for table, reason in reasons.items():
            statement = reason["remedy"].removeprefix("Run: ").partition("END $$;")[0]
            prepare(database, statement.replace("new_name", f"{table}_new") + "END $$;")
        for table in bad:
            capture.until(lambda c, t=table: len(c.rows(TABLES.index(t))) == 9)  # type: ignore[misc]
        assert "columns_new" in capture.rows(TABLES.index("columns"))[1,]


def test_a_name_that_becomes_one_while_it_is_captured(in_encoding: InEncoding) -> None:
    database = in_encoding("EUC_JP")
    prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name text)",
        "CREATE TABLE 表 (id int PRIMARY KEY, 名 text)",
        *(FILL.format(table) for table in ("users", "表")),
    )
    with session(
        endpoint(database),
        bindings("public.users", "public.表"),
        command=impatient("tidemark.connectors.postgres", 0.5),
    ) as capture:
        capture.until(Session.done)
        prepare(
            database,
            with_bytes("ALTER TABLE 表 RENAME 名 TO %I", BAD["EUC_JP"]),
            FILL.format("表").replace("1, 5", "6, 9"),
            FILL.format("users").replace("1, 5", "6, 9"),
        )
        capture.until(lambda c: aside_of(c, "表"))
        assert _aside(capture, "表")["code"] == CODE
        capture.until(lambda c: c.rows() == table_rows(database))
        assert not any(key not in ("_meta", "id", "名") for _, d in capture.documents[10:] for key in d if _ == 1)
        bound = bindings("public.users", "public.表")
        bound[1]["resourceConfig"]["exclude"] = [shown(BAD["EUC_JP"])]
        state = capture.state
    with session(endpoint(database), bound, state) as again:
        again.until(lambda c: len(c.rows(1)) == 9)
        prepare(database, "DELETE FROM 表 WHERE id = 7")
        again.until(lambda c: len(c.rows(1)) == 8)


def _aside(capture: Session, table: str) -> Json:
    found = aside_of(capture, table)
    assert found is not None
    return found
