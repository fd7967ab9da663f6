"""What must hold before a capture can run: all of it is said at once, with what mends it where the server is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import errors

from tests.captures.postgres.log_reading import binding
from tests.captures.remedies import statements
from tests.captures.session import Json, Session, apply, begin, bindings, session, unary
from tests.captures.source_tables import BOUND, FILL, USERS, end_of_log, prepare, table_rows
from tidemark.captures.postgres.database import PostgresDatabase
from tidemark.captures.postgres.server.config import parse_endpoint, parse_resource
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.captures.postgres.server.server_prerequisites import PLATFORMS
from tidemark.captures.postgres.server.session import connect
from tidemark.captures.postgres.source import PostgresSource
from tidemark.captures.postgres.tables.bindings import bound_tables
from tidemark.captures.postgres.tables.prerequisites import unmet
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import CaptureSpec
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, Postgres, fresh_database, own_server


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """A role that may log in, and nothing else."""
    name = f"{database.name}_role"
    prepare(database, f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    yield name
    prepare(database, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def endpoint(database: Database, **more: Any) -> Json:
    return {**database.config(), "slot": database.name[-60:], "publication": "tidemark", **more}


def failures(database: Database, *tables: str, **config: Any) -> list[SourceError]:
    """Every unmet prerequisite."""
    settings = parse_endpoint(endpoint(database, **config))
    bound = [binding(table) for table in tables]
    resources = [parse_resource(one.resource_config) for one in bound]
    with connect(settings) as opened:
        return unmet(opened, settings, resources, bound_tables(opened, resources, settings.publication)).all


def test_all_failures_are_said_at_once(database: Database, role: str) -> None:
    prepare(
        database,
        USERS,
        "CREATE TABLE keyless (a int)",
        "ALTER TABLE users REPLICA IDENTITY NOTHING",
        "CREATE TABLE odd (id int PRIMARY KEY, _meta text)",
    )
    config = endpoint(database, user=role, password="x", create=False)
    bound = bindings("public.users", "public.keyless", "public.odd", "public.absent")
    status, messages, logs = unary({"validate": {"config": config, "bindings": bound}})
    assert (status, messages) == (1, [])
    said = [line["fields"]["code"] for line in logs if "code" in line.get("fields", {})]
    assert said[-1] == "TM-PG-010"
    assert set(said[:-1]) >= {
        "TM-PG-006",  # no REPLICATION
        "TM-PG-007",  # a table that is not there
        "TM-PG-008",  # no SELECT
        "TM-PG-011",  # no publication
        "TM-PG-012",  # no slot
        "TM-PG-017",  # _meta
        "TM-PG-018",  # REPLICA IDENTITY NOTHING
    }
    assert all(line["fields"]["remedy"] for line in logs if "code" in line.get("fields", {}))
    for code in said[:-1]:
        assert code in logs[-1]["message"]


def test_the_remedies_are_enough(database: Database, role: str) -> None:
    """What `validate` says to run, run by a superuser, makes it pass."""
    prepare(database, USERS, 'CREATE SCHEMA "Odd ""one"""', 'CREATE TABLE "Odd ""one"""."T 1" (id int PRIMARY KEY)')
    bound = [*BOUND, *bindings('Odd "one".T 1')]
    config = endpoint(database, user=role, password="x", create=False)
    status, _, logs = unary({"validate": {"config": config, "bindings": bound}})
    assert status == 1
    with database.connect() as admin:
        for line in logs[:-1]:
            _, _, statements = line["fields"]["remedy"].partition(": ")
            for statement in filter(None, statements.split("; ")):
                admin.execute(statement.rstrip(";"))
    status, _, logs = unary({"validate": {"config": config, "bindings": bound}})
    assert status == 0, logs


def test_least_privilege(any_database: Database) -> None:
    """REPLICATION and SELECT are enough where the owner of the tables made the publication."""
    name = f"{any_database.name}_least"
    prepare(
        any_database,
        USERS,
        FILL,
        "CREATE PUBLICATION tidemark FOR TABLE users",
        f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD 'x'",
        f"GRANT SELECT ON users TO {name}",
    )
    try:
        config = endpoint(any_database, user=name, password="x", backfill={"chunk_rows": 300})
        assert PostgresDatabase().validate(config, [binding("users")]) == [["public", "users"]]
        with session(config, BOUND) as capture:
            capture.until(Session.done)
            assert any("created replication slot" in line["message"] for line in capture.logs)
            prepare(any_database, "UPDATE users SET name = 'changed' WHERE id < 10")
            capture.until(lambda c: len(c.documents) >= 1009)
            assert capture.rows() == table_rows(any_database)
            assert [line for line in capture.logs if line["level"] in ("warning", "error")] == []
    finally:
        prepare(any_database, f"DROP OWNED BY {name}")
        with any_database.connect() as admin:
            admin.execute(f"DROP ROLE {name}")


def test_an_owner_adds_its_tables_to_the_publication(database: Database, role: str) -> None:
    prepare(database, f"ALTER ROLE {role} REPLICATION", f"GRANT CREATE ON DATABASE {database.name} TO {role}")
    with database.connect() as admin:
        admin.execute(f"CREATE SCHEMA own AUTHORIZATION {role}")
        admin.execute(f"SET ROLE {role}")
        admin.execute("CREATE TABLE own.one (id int PRIMARY KEY)")
        admin.execute("CREATE TABLE own.two (id int PRIMARY KEY)")
    config = endpoint(database, user=role, password="x")
    with session(config, bindings("own.one")) as first:
        first.until(Session.done)
        assert any("for 1 tables" in line["message"] for line in first.logs)
    with session(config, bindings("own.one", "own.two"), first.state) as second:
        second.until(lambda c: any("added 1 tables" in line["message"] for line in c.logs))


def test_a_key_that_is_generated(database: Database) -> None:
    generated = "no int GENERATED ALWAYS AS (id * 2) STORED"
    prepare(database, f"CREATE TABLE one (id int, {generated} PRIMARY KEY)", f"CREATE TABLE two (id int, {generated})")
    prepare(database, "ALTER TABLE two REPLICA IDENTITY FULL")
    (said,) = [one.message for one in failures(database, "one") if one.code == "TM-PG-018"]
    assert "the column no of its key is generated, and the log does not carry its values" in said
    settings = parse_endpoint(endpoint(database))
    resources = [parse_resource({**binding("two").resource_config, "key": ["no"]})]
    with connect(settings) as session:
        found = unmet(session, settings, resources, bound_tables(session, resources, settings.publication)).all
    (said,) = [one.message for one in found if one.code == "TM-PG-022"]
    assert "the key column no is generated, and the log does not carry its values" in said


def test_generated_columns_that_would_end_all_updates(database: Database) -> None:
    if database.version < 18:
        pytest.skip("from version 18 on")
    prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name text, twice int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO users SELECT i, 'name' FROM generate_series(1, 10) i",
        "ALTER TABLE users REPLICA IDENTITY FULL",
    )
    (failure,) = failures(database, "users")
    assert failure.code == "TM-PG-018"
    prepare(database, failure.remedy.partition("are still left out: ")[2])
    assert failures(database, "users") == []
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        prepare(database, "UPDATE users SET name = 'changed' WHERE id < 5", "DELETE FROM users WHERE id = 9")
        end = end_of_log(database)
        capture.until(lambda c: parse_lsn(c.state["cursor"]) >= end)
        assert capture.rows() == table_rows(database)
        assert all("twice" not in doc.get("_meta", {}).get("before", {}) for _, doc in capture.documents)
    prepare(database, "ALTER PUBLICATION tidemark SET (publish_generated_columns = none)")
    (failure,) = failures(database, "users")
    prepare(database, failure.remedy.partition("are still left out: ")[2])
    prepare(database, "ALTER TABLE users ADD COLUMN thrice int GENERATED ALWAYS AS (id * 3) VIRTUAL")
    with pytest.raises(errors.InvalidColumnReference):
        prepare(database, "UPDATE users SET name = 'refused'")
    (failure,) = failures(database, "users")
    assert "still left out" not in failure.remedy
    prepare(database, failure.remedy.removeprefix("Run: ").partition(";")[0], "UPDATE users SET name = 'taken'")
    assert failures(database, "users") == []


def test_settings_of_the_role_break_nothing(any_database: Database) -> None:
    name = f"{any_database.name}_settings"
    prepare(
        any_database,
        USERS,
        FILL,
        "CREATE PUBLICATION tidemark FOR TABLE users",
        f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD 'x'",
        f"GRANT SELECT ON users TO {name}",
        f"ALTER ROLE {name} SET statement_timeout = '1ms'",
        f"ALTER ROLE {name} SET idle_session_timeout = '20ms'",
        f"ALTER ROLE {name} SET idle_in_transaction_session_timeout = '1ms'",
        f"ALTER ROLE {name} SET lock_timeout = '1ms'",
        f"ALTER ROLE {name} SET default_transaction_read_only = on",
        f"ALTER ROLE {name} SET default_transaction_isolation = 'serializable'",
    )
    if any_database.version >= 17:
        prepare(any_database, f"ALTER ROLE {name} SET transaction_timeout = '100ms'")
    try:
        config = endpoint(any_database, user=name, password="x", backfill={"chunk_rows": 100})
        apply(config, BOUND)
        with session(config, BOUND) as capture:
            capture.until(Session.done)
            prepare(any_database, "UPDATE users SET name = 'changed'")
            capture.until(lambda c: len(c.documents) >= 2000)
            assert capture.rows() == table_rows(any_database)
            assert [line["message"] for line in capture.logs if line["level"] in ("warning", "error")] == []
    finally:
        prepare(any_database, f"DROP OWNED BY {name}")
        with any_database.connect() as admin:
            admin.execute(f"DROP ROLE {name}")


def test_a_role_whose_transactions_only_read_makes_its_publication(any_database: Database) -> None:
    name = f"{any_database.name}_reader"
    prepare(
        any_database,
        USERS,
        FILL,
        f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD 'x'",
        f"GRANT CREATE ON DATABASE {any_database.name} TO {name}",
        f"ALTER TABLE users OWNER TO {name}",
        f"ALTER ROLE {name} SET default_transaction_read_only = on",
    )
    try:
        config = endpoint(any_database, user=name, password="x")
        apply(config, BOUND)
        with any_database.connect() as admin:
            assert admin.execute("SELECT tablename FROM pg_publication_tables").fetchall() == [("users",)]
        with session(config, BOUND) as capture:
            capture.until(Session.done)
            assert capture.rows() == table_rows(any_database)
    finally:
        prepare(any_database, f"DROP OWNED BY {name}")
        with any_database.connect() as admin:
            admin.execute(f"DROP ROLE {name}")


def test_a_table_that_is_published_no_more_is_found_when_the_capture_opens(database: Database) -> None:
    prepare(database, USERS, "CREATE TABLE other (id int PRIMARY KEY)")
    config = endpoint(database)
    bound = [binding("users"), binding("other")]
    begin(PostgresDatabase(), CaptureSpec(config=config, bindings=bound))
    resources = [parse_resource(one.resource_config) for one in bound]
    prepare(database, "ALTER PUBLICATION tidemark DROP TABLE other")
    source = PostgresSource(parse_endpoint({**config, "create": False}), bound, resources)
    try:
        source.start_position(None, None)
        users, other = source.tables
        assert users.unfit is None
        assert other.unfit is not None and other.unfit.code == "TM-PG-011" and "public.other" in other.unfit.message
        assert 'ADD TABLE ONLY "public"."other"' in other.unfit.remedy
    finally:
        source.close()


@pytest.fixture(scope="module")
def ill_set() -> Iterator[Postgres]:
    """A server without logical decoding and without room for slots and walsenders."""
    with own_server({"wal_level": "replica", "max_replication_slots": "0", "max_wal_senders": "0"}) as server:
        yield server


@pytest.mark.parametrize("provider", ["", *PLATFORMS])
def test_what_to_do_where_the_server_is(ill_set: Postgres, provider: str) -> None:
    with fresh_database(ill_set, "ill_set") as database:
        name = 'odd "role"'
        quoted = '"odd ""role"""'
        prepare(
            database,
            USERS,
            f"CREATE ROLE {quoted} LOGIN PASSWORD 'x'",
            f"GRANT SELECT ON users TO {quoted}",
            "ALTER TABLE users ENABLE ROW LEVEL SECURITY",
            *([f"CREATE ROLE {provider}"] if provider else []),
            *(["CREATE ROLE rds_replication"] if provider == "rds_superuser" else []),
        )
        try:
            found = failures(database, "users", user=name, password="x")
            prepare(database, *(s for e in found if e.code in ("TM-PG-006", "TM-PG-008") for s in statements(e.remedy)))
            left = {error.code for error in failures(database, "users", user=name, password="x")}
            assert not left & {"TM-PG-006", "TM-PG-008"}
        finally:
            prepare(database, f"DROP OWNED BY {quoted}", f"DROP ROLE {quoted}")
            if provider:
                prepare(database, f"DROP ROLE {provider}", "DROP ROLE IF EXISTS rds_replication")
        remedies = [(failure.code, failure.remedy) for failure in found]
        codes = [code for code, _ in remedies]
        assert codes.count("TM-PG-025") == 2, "slots and walsenders"
        by_code = dict(remedies)
        words = {
            "": ("ALTER SYSTEM SET wal_level", f"ALTER ROLE {quoted} REPLICATION"),
            "rds_superuser": ("rds.logical_replication", f"GRANT rds_replication TO {quoted}"),
            "cloudsqlsuperuser": ("cloudsql.logical_decoding", f"ALTER ROLE {quoted} REPLICATION"),
            "azure_pg_admin": ("server parameter", f"ALTER ROLE {quoted} REPLICATION"),
            "supabase_admin": ("pooler", f"ALTER ROLE {quoted} REPLICATION"),
            "neon_superuser": ("project's settings", f"ALTER ROLE {quoted} REPLICATION"),
        }[provider]
        assert words[0] in by_code["TM-PG-005"]
        if not provider:
            prepare(database, *statements(by_code["TM-PG-005"]))
            assert ill_set.server is not None
            with ill_set.connect() as admin:
                pending = "SELECT pending_restart, setting FROM pg_settings WHERE name = 'wal_level'"
                admin.execute("SELECT pg_reload_conf()")
                wait_until(lambda: admin.execute(pending).fetchone() == (True, "replica"), 20, "it waits for a restart")
                admin.execute("ALTER SYSTEM RESET wal_level")
        assert words[1] in by_code["TM-PG-006"]
        assert f"ALTER ROLE {quoted} BYPASSRLS" in by_code["TM-PG-008"]
