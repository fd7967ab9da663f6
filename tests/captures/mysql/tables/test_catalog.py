"""Tables, columns and keys, as the catalog has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.captures.mysql.table_chunks import binding_of, run, session_on
from tidemark.captures.mysql.tables import catalog
from tidemark.captures.mysql.tables.catalog import read_tables
from tidemark.captures.mysql.tables.document_schema import document_schema
from tidemark.captures.mysql.terms.columns import Column, Table
from tidemark.captures.mysql.terms.config import parse_endpoint, parse_resource, replica_id
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.mariadb import Database


def table_of(database: Database, name: str = "t") -> Table:
    with session_on(database) as session:
        (table,) = read_tables(session, [(database.name, name)])
    return table


def columns_of(database: Database) -> dict[str, Column]:
    return {column.name: column for column in table_of(database).columns}


def test_types_and_their_attributes(binlog_database: Database) -> None:
    run(
        binlog_database,
        r"""CREATE TABLE t (
            `unsigned` INT, u INT(5) UNSIGNED ZEROFILL NOT NULL COMMENT 'how many', b BIT(9), y TINYINT(1),
            d DECIMAL(10,3), f FLOAT(7,2), x DOUBLE, l VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_german2_ci,
            v VARBINARY(3), t TIMESTAMP(3) NULL, e ENUM('a','it''s','b\\s','ü,','n\nl','unsigned)') NOT NULL,
            s SET('x','y'), g INT AS (y + 1) VIRTUAL, h INT AS (y + 2) STORED) COMMENT 'things'""",
    )
    table, columns = table_of(binlog_database), columns_of(binlog_database)
    assert [column.name for column in table.columns] == [
        *("unsigned", "u", "b", "y", "d", "f", "x", "l", "v", "t", "e", "s", "g", "h")
    ]
    assert (table.description, table.engine, table.transactional, table.key) == ("things", "InnoDB", True, ())
    assert not columns["unsigned"].unsigned and columns["unsigned"].nullable
    u = columns["u"]
    assert (u.unsigned, u.zerofill, u.nullable, u.description) == (True, True, False, "how many")
    assert (columns["b"].length, columns["y"].length, columns["l"].length, columns["v"].length) == (9, 1, 10, 3)
    assert (columns["d"].precision, columns["d"].scale, columns["f"].scale, columns["x"].scale) == (10, 3, 2, None)
    assert (columns["l"].charset, columns["l"].collation) == ("latin1", "latin1_german2_ci")
    assert (columns["v"].charset, columns["t"].fraction) == (None, 3)
    assert columns["e"].labels == ("a", "it's", "b\\s", "ü,", "n\nl", "unsigned)") and not columns["e"].unsigned
    assert columns["s"].labels == ("x", "y")
    assert (columns["g"].generated, columns["h"].generated, u.generated) == ("virtual", "stored", "")


@pytest.mark.parametrize("between", ["columns and indexes", "indexes and tables"])
def test_a_table_that_is_created_again_while_it_is_read_keeps_its_key(
    binlog_database: Database, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with session_on(binlog_database) as session:
        ask = session.rows
        todo = [["DROP TABLE t"], ["CREATE TABLE t (other INT PRIMARY KEY)"]]
        if between == "columns and indexes":
            todo = [[*todo[0], *todo[1]], []]

        def ask_meanwhile(query: str, *parameters: object) -> list[tuple[Any, ...]]:
            begun = [name for name in ("statistics t", "tables t") if f"information_schema.{name}" in query]
            if begun and todo:
                run(binlog_database, *todo.pop(0))
            return ask(query, *parameters)

        monkeypatch.setattr(session, "rows", ask_meanwhile)
        (table,) = read_tables(session, [(binlog_database.name, "t")])
    assert not todo and table.key == ("other",) and [column.name for column in table.columns] == ["other"]


def test_json_is_known_by_type_or_by_check(binlog_database: Database) -> None:
    # Whatever column the check stands at, which MySQL has at that column only, and not as a sign of JSON.
    checks = "" if binlog_database.is_mysql else ", n LONGTEXT, m LONGTEXT CHECK (json_valid(n))"
    run(binlog_database, f"CREATE TABLE t (j JSON, `a``b` JSON, t LONGTEXT CHECK (t > ''){checks})")
    found = {name: column.json for name, column in columns_of(binlog_database).items()}
    assert found == {"j": True, "a`b": True, "t": False, **({"n": True, "m": False} if checks else {})}


@pytest.mark.parametrize(
    ("definition", "key", "fallback"),
    [
        ("a INT, b INT, PRIMARY KEY (b, a), UNIQUE (a)", ("b", "a"), False),
        ("a INT NOT NULL, b INT NOT NULL, UNIQUE y (b), UNIQUE x (a, b)", ("a", "b"), True),
        ("a INT, b INT NOT NULL, UNIQUE a (a), UNIQUE b (b)", ("b",), True),
        ("a TEXT NOT NULL, b INT, UNIQUE (a(10)), KEY (b)", (), False),
        ("a INT", (), False),
    ],
)
def test_keys(binlog_database: Database, definition: str, key: tuple[str, ...], fallback: bool) -> None:
    run(binlog_database, f"CREATE TABLE t ({definition})")
    table = table_of(binlog_database)
    assert (table.key, table.key_is_fallback) == (key, fallback)


def test_what_has_no_rows_of_its_own_is_left_out(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE VIEW v AS SELECT * FROM t",
        "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM",
        "CREATE TABLE mm (id INT NOT NULL) ENGINE = MERGE UNION = (m)",
    )
    if not binlog_database.is_mysql:
        run(binlog_database, "CREATE SEQUENCE s")
    with session_on(binlog_database) as session:
        found = {table.path: table for table in read_tables(session)}
    ours = [name for schema, name in found if schema == binlog_database.name]
    assert ours == ["m", "t"]
    assert not found[binlog_database.name, "m"].transactional
    assert not {"mysql", "sys", "information_schema", "performance_schema"} & {schema for schema, _ in found}


def test_names_are_true_to_case(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE Orders (Id INT PRIMARY KEY)", "CREATE TABLE orders (id INT PRIMARY KEY)")
    assert table_of(binlog_database, "Orders").columns[0].name == "Id"
    assert table_of(binlog_database, "orders").columns[0].name == "id"
    with session_on(binlog_database) as session:
        assert read_tables(session, [(binlog_database.name, "ORDERS")]) == []


@pytest.mark.parametrize(("at_once", "others"), [(64, 0), (4, 0), (4, 60)])
def test_many_tables_are_read_as_each_one_is(
    binlog_database: Database, monkeypatch: pytest.MonkeyPatch, at_once: int, others: int
) -> None:
    """Some by their names, or, where most of a schema is wanted, all of it."""
    monkeypatch.setattr(catalog, "AT_ONCE", at_once)
    keyless = [f"CREATE TABLE k{number} (v INT)" for number in range(2)]
    run(binlog_database, *(f"CREATE TABLE T{n} (id INT PRIMARY KEY, v JSON, UNIQUE (id))" for n in range(10)), *keyless)
    run(binlog_database, *(f"CREATE TABLE other{number} (id INT)" for number in range(others)))
    names = [*(f"T{number}" for number in range(10)), "k0", "k1", "t1", "missing"]
    with session_on(binlog_database) as session:
        alone = [table for name in sorted(names) for table in read_tables(session, [(binlog_database.name, name)])]
        assert [table.name for table in alone] == [*(f"T{number}" for number in range(10)), "k0", "k1"]
        asked, ask = [], session.rows

        def noted(query: str, *parameters: object) -> list[tuple[Any, ...]]:
            asked.append(query)
            return ask(query, *parameters)

        monkeypatch.setattr(session, "rows", noted)
        together = read_tables(session, [(binlog_database.name, name) for name in names])
    # Of a table its estimate of rows may change from one moment to the next.
    assert [replace(table, estimated_rows=0) for table in together] == [replace(t, estimated_rows=0) for t in alone]
    assert len(asked) < len(names) * 3  # Each by itself takes four or five, and twice as many without a key.
    assert any("COUNT(*)" in query for query in asked) == (at_once < len(names))


def test_the_identity_changes_with_the_key_and_its_order_only(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)")
    before = binding_of(binlog_database, "t").identity
    run(binlog_database, "ALTER TABLE t ADD w INT, MODIFY v BIGINT, ENGINE = InnoDB", "TRUNCATE t")
    assert binding_of(binlog_database, "t").identity == before
    run(binlog_database, "ALTER TABLE t MODIFY id VARCHAR(9) COLLATE utf8mb4_bin")
    other = binding_of(binlog_database, "t").identity
    run(binlog_database, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)")
    assert len({before, other, binding_of(binlog_database, "t").identity}) == 3


def test_schemas_of_documents(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY COMMENT 'its number', t TINYINT(1), b BIT(1) NOT NULL,"
        " e ENUM('x'), d DECIMAL(9,2), f DOUBLE, n BLOB, a DATE, o DATETIME(3) NOT NULL, s TIMESTAMP NULL, j JSON,"
        " i TIME, p POINT, c CHAR(3)) COMMENT 'of the shop'",
    )
    table = table_of(binlog_database)
    schema = document_schema(table, table.columns, table.key, truncates=False, tinyint1_as_bool=True)
    members = schema["properties"]
    assert schema["description"] == "of the shop" and schema["required"] == ["_meta", "id"]
    assert {name: body for name, body in members.items() if name != "_meta"} == {
        "id": {"type": "integer", "minimum": 0, "maximum": 2**64 - 1, "description": "its number"},
        "t": {"type": ["boolean", "null"]},
        "b": {"type": "boolean"},
        "e": {"type": ["string", "null"], "x-enum": ["x"]},
        "d": {"type": ["string", "null"], "format": "number", "x-precision": 9, "x-scale": 2},
        "f": {"type": ["number", "null"]},
        "n": {"type": ["string", "null"], "contentEncoding": "base64"},
        "a": {"type": ["string", "null"], "format": "date"},
        "o": {"type": "string", "x-local": True},
        "s": {"type": ["string", "null"], "format": "date-time"},
        "j": {"contentMediaType": "application/json"},
        "i": {"type": ["string", "null"]},
        "p": {"type": ["string", "null"]},
        "c": {"type": ["string", "null"]},
    }
    assert members["_meta"]["properties"]["op"]["enum"] == ["c", "u", "d"]


def test_configurations_that_are_wrong() -> None:
    given = {"host": "h", "user": "u", "password": "secret"}
    for wrong in (
        {"ssl_mode": "sometimes"},
        {"ssl_ca": "/ca.pem"},
        {"ssl_cert": "/c.pem", "ssl_mode": "REQUIRED"},
        {"watermark_table": "marks"},
        {"server_id": 0},
        {"surprise": 1},
    ):
        with pytest.raises(SourceError) as caught:
            parse_endpoint({**given, **wrong})
        assert caught.value.code == "TM-MY-023" and "secret" not in str(caught.value)
    assert parse_endpoint({**given, "ssl_mode": "verify_ca"}).ssl_mode == "VERIFY_CA"
    assert parse_endpoint({**given, "watermark_table": "a.b"}).watermark_path == ("a", "b")
    with pytest.raises(SourceError) as caught:
        parse_resource({"schema": "s", "table": "t", "scan": "physical"})
    assert "s.t" in caught.value.message


def test_the_replicas_number_is_stable_and_its_own() -> None:
    config = parse_endpoint({"host": "h", "user": "u"})
    one, two = (parse_resource({"schema": "s", "table": name}) for name in ("one", "two"))
    assert replica_id(config, [one, two]) == replica_id(config, [two, one])
    others = {
        replica_id(config, [one]),
        replica_id(config, [two]),
        replica_id(parse_endpoint({"host": "i", "user": "u"}), [one]),
    }
    assert len(others) == 3 and all(2**30 <= number < 2**32 for number in others)
    assert replica_id(parse_endpoint({"host": "h", "user": "u", "server_id": 77}), [one]) == 77
