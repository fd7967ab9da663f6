"""What an error says to run is run as it stands, with names that have to be quoted, and the error is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg import sql

from tests.captures.remedies import STATEMENT, statements
from tests.captures.session import Json, bindings, session
from tests.captures.source_tables import prepare
from tidemark.captures.postgres.error_codes import CODES
from tidemark.captures.postgres.server.config import EndpointConfig, parse_endpoint, parse_resource
from tidemark.captures.postgres.server.session import connect, connect_pq
from tidemark.captures.postgres.tables.bindings import bound_tables
from tidemark.captures.postgres.tables.prerequisites import unmet
from tidemark.protocol.error_codes import ErrorCode
from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, Postgres, fresh_database, own_server, read_settings_again

ROLE = 'The "cdc" Role'
SCHEMA, TABLE = 'Odd "schema"', "T 1; odd"
PUBLICATION = 'Pub "licat" ion'
NAMES = {
    "role": sql.Identifier(ROLE),
    "schema": sql.Identifier(SCHEMA),
    "table": sql.Identifier(SCHEMA, TABLE),
    "part": sql.Identifier(SCHEMA, 'Part "1"'),
    "index": sql.Identifier('Index "1"'),
    "publication": sql.Identifier(PUBLICATION),
}


@dataclass(frozen=True)
class Scene:
    """A database in whose names quotes, blanks and capitals are, and a role that may do what a capture needs."""

    database: Database

    def run(self, *texts: str) -> None:
        with self.database.connect() as connection:
            for text in texts:
                connection.execute(sql.SQL(text).format(**NAMES))

    def config(self, **more: Any) -> Json:
        given = {**self.database.config(), "user": ROLE, "password": "x", "publication": PUBLICATION}
        return {**given, "slot": "remedies", **more}

    def failures(self, **config: Any) -> dict[str, SourceError]:
        """Every unmet prerequisite, by its code."""
        settings = parse_endpoint(self.config(**config))
        resources = [parse_resource(bindings(f"{SCHEMA}.{TABLE}")[0]["resourceConfig"])]
        resources = [resource.model_copy(update={"schema_name": SCHEMA, "table": TABLE}) for resource in resources]
        with closing(connect(settings)) as opened:
            tables = bound_tables(opened, resources, settings.publication)
            return {failure.code: failure for failure in unmet(opened, settings, resources, tables).all}

    def follow(self, error: SourceError) -> None:
        prepare(self.database, *(each for each in statements(error.remedy) if "rds_" not in each))


@contextmanager
def scene_on(postgres: Postgres, name: str) -> Iterator[Scene]:
    with fresh_database(postgres, f'{name} "Odd"') as database:
        scene = Scene(database)
        scene.run(
            "CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'",
            "CREATE SCHEMA {schema}",
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
        )
        try:
            yield scene
        finally:
            scene.run("DROP OWNED BY {role}", "DROP ROLE {role}")


@pytest.fixture
def scene(database: Database, postgres: Postgres) -> Iterator[Scene]:
    with scene_on(postgres, database.name) as made:
        yield made


PLAIN = "CREATE TABLE {table} (id int PRIMARY KEY, a int NOT NULL)"
READABLE = "GRANT SELECT ON {table} TO {role}"
PUBLISHED = "CREATE PUBLICATION {publication} FOR TABLE {table}"
BY_ROOT = f"{PUBLISHED} WITH (publish_via_partition_root = true)"
PARTS = [
    "CREATE TABLE {table} (id int PRIMARY KEY, a int NOT NULL) PARTITION BY RANGE (id)",
    "CREATE TABLE {part} PARTITION OF {table} FOR VALUES FROM (0) TO (100)",
]
STORED = "CREATE TABLE {table} (id int PRIMARY KEY, b int GENERATED ALWAYS AS (id * 2) STORED)"
FULL = "ALTER TABLE {table} REPLICA IDENTITY FULL"

MENDED: dict[str, tuple[str, int, list[str]]] = {
    # By what is wrong: the code, the version that has it, what makes it so.
    "no USAGE": ("TM-PG-008", 14, [PLAIN, READABLE, PUBLISHED, "REVOKE USAGE ON SCHEMA {schema} FROM {role}"]),
    "no SELECT": ("TM-PG-008", 14, [PLAIN, PUBLISHED]),
    "row security": ("TM-PG-008", 14, [PLAIN, READABLE, PUBLISHED, "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"]),
    "no REPLICATION": ("TM-PG-006", 14, [PLAIN, READABLE, PUBLISHED, "ALTER ROLE {role} NOREPLICATION"]),
    "no publication": ("TM-PG-011", 14, [PLAIN, READABLE]),
    "not published": ("TM-PG-011", 14, [PLAIN, READABLE, "CREATE PUBLICATION {publication}"]),
    "kinds of changes": ("TM-PG-011", 14, [PLAIN, READABLE, f"{PUBLISHED} WITH (publish = 'insert')"]),
    "some columns": ("TM-PG-011", 15, [PLAIN, READABLE, f"{PUBLISHED} (id)"]),
    "some rows": ("TM-PG-011", 15, [PLAIN, READABLE, f"{PUBLISHED} WHERE (id > 5)"]),
    "not as the root": ("TM-PG-011", 14, [*PARTS, READABLE, PUBLISHED]),
    "identity NOTHING": ("TM-PG-018", 14, [PLAIN, READABLE, "ALTER TABLE {table} REPLICA IDENTITY NOTHING"]),
    "no key": ("TM-PG-018", 14, ["CREATE TABLE {table} (a int)", READABLE]),
    "a partition's identity": ("TM-PG-018", 14, [*PARTS, READABLE, "ALTER TABLE {part} REPLICA IDENTITY NOTHING"]),
    "an index that is gone": (
        "TM-PG-018",
        14,
        [
            PLAIN,
            READABLE,
            "CREATE UNIQUE INDEX {index} ON {table} (a)",
            "ALTER TABLE {table} REPLICA IDENTITY USING INDEX {index}",
            "DROP INDEX {schema}.{index}",
        ],
    ),
    "another index": (
        "TM-PG-032",
        14,
        [
            PLAIN,
            READABLE,
            "CREATE UNIQUE INDEX {index} ON {table} (a)",
            "ALTER TABLE {table} REPLICA IDENTITY USING INDEX {index}",
        ],
    ),
    "generated columns, stored": ("TM-PG-018", 18, [STORED, READABLE, FULL, PUBLISHED]),
    "generated columns, virtual": ("TM-PG-018", 18, [STORED.replace("STORED", "VIRTUAL"), READABLE, FULL, PUBLISHED]),
    "generated columns, an index": (
        "TM-PG-018",
        18,
        [
            "CREATE TABLE {table} (a int NOT NULL, b int GENERATED ALWAYS AS (a * 2) VIRTUAL)",
            "CREATE UNIQUE INDEX {index} ON {table} (a)",
            READABLE,
            FULL,
            PUBLISHED,
        ],
    ),
    "unlogged": ("TM-PG-035", 14, [PLAIN.replace("TABLE", "UNLOGGED TABLE", 1), READABLE]),
    "no slot": ("TM-PG-012", 14, [PLAIN, READABLE, PUBLISHED]),
}


@pytest.mark.drawn(10)
@pytest.mark.parametrize("wrong", MENDED)
def test_what_validation_says_to_run_mends_it(scene: Scene, wrong: str) -> None:
    code, version, made = MENDED[wrong]
    if scene.database.version < version:
        pytest.skip(f"from version {version} on")
    scene.run(*made)
    found = scene.failures(create=False)
    assert code in found, found
    scene.follow(found[code])
    assert code not in scene.failures(create=False)


def test_a_slot_that_nobody_can_use(scene: Scene) -> None:
    scene.run(
        PLAIN, READABLE, PUBLISHED, "SELECT pg_create_logical_replication_slot('remedies', 'pgoutput', false, true)"
    )
    found = scene.failures()
    assert found.keys() == {"TM-PG-013"}
    scene.follow(found["TM-PG-013"])
    assert scene.failures() == {}


@pytest.mark.parametrize(
    ("revoked", "code"),
    [
        ("ALTER ROLE {role} NOLOGIN", "TM-PG-002"),
        ("REVOKE CONNECT ON DATABASE {database} FROM PUBLIC", "TM-PG-002"),
    ],
    ids=["LOGIN", "CONNECT"],
)
def test_a_role_that_is_not_let_in(scene: Scene, revoked: str, code: str) -> None:
    name = sql.Identifier(scene.database.name)
    with scene.database.connect() as admin:
        admin.execute(sql.SQL(revoked).format(role=NAMES["role"], database=name))
    settings = parse_endpoint(scene.config())
    with pytest.raises(SourceError) as refused:
        connect(settings)
    assert refused.value.code == code
    scene.follow(refused.value)
    connect(settings).close()


def test_the_rows_with_bad_values_are_found(scene: Scene) -> None:
    scene.run(
        'CREATE TABLE {table} (id int PRIMARY KEY, "a ""day""" date)',
        READABLE,
        BY_ROOT,
        "INSERT INTO {table} VALUES (1, '2024-02-29'), (2, 'infinity')",
    )
    config = scene.config(user=scene.database.config()["user"], password=scene.database.config()["password"])
    bound = bindings(f"{SCHEMA}.{TABLE}")
    with session(config, bound) as capture:
        capture.until(lambda c: "TM-CAP-020" in str(c.state))
    told = [line for line in capture.logs if line.get("fields", {}).get("code") == "TM-CAP-020"]
    (found,) = statements(told[-1]["fields"]["remedy"])
    with scene.database.connect() as connection:
        assert connection.execute(found.encode()).rowcount == 1


def _connects(settings: EndpointConfig) -> bool:
    try:
        connect(settings).close()
    except SourceError:
        return False
    return True


def test_a_line_that_rejects() -> None:
    with own_server() as server, scene_on(server, "rejected") as scene:
        assert server.server is not None
        rules = server.server.data / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f'host all "{ROLE.replace(chr(34), chr(34) * 2)}" all reject\n{before}')
        with server.connect() as admin:
            read_settings_again(admin)
        settings = parse_endpoint(scene.config())
        with pytest.raises(SourceError) as refused:
            connect(settings)
        assert refused.value.code == "TM-PG-002" and "reject" in refused.value.remedy
        rules.write_text(before)
        scene.follow(refused.value)
        wait_until(lambda: _connects(settings), 60, "the line that rejects is gone")


def test_a_role_that_may_not_stream(scene: Scene) -> None:
    scene.run("ALTER ROLE {role} NOREPLICATION")
    settings = parse_endpoint(scene.config())
    with pytest.raises(SourceError) as refused:
        connect_pq(settings, replication=True)
    assert refused.value.code == "TM-PG-006"
    scene.follow(refused.value)
    connect_pq(settings, replication=True).finish()


@pytest.mark.parametrize("entry", [each for each in CODES if STATEMENT.search(each.remedy)], ids=lambda each: each.code)
def test_statements_of_the_table_of_codes(database: Database, entry: ErrorCode) -> None:
    """Those that an error gives which knows no better."""
    for statement in statements(entry.remedy):
        prepare(database, statement)
        if "ALTER SYSTEM SET" in statement:
            prepare(database, "ALTER SYSTEM RESET wal_level")
