"""The optional event trigger on real servers: what it writes, that no ALTER TABLE fails for it, and how it goes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.captures.source_tables import prepare
from tidemark.captures.postgres.server.rewrite_trigger import (
    PREFIX,
    REMOVE,
    SCRIPT,
    Reason,
    Trigger,
    note_rewrite,
    trigger_of,
)
from tidemark.testing.servers.postgres import Database, fresh_database, own_server

TABLE = "CREATE TABLE t (id int PRIMARY KEY, a int)"
ALTER = "ALTER TABLE t ALTER a TYPE int USING a + 1"

_CHANGES = """
SELECT data FROM pg_logical_slot_get_binary_changes(
    %s, NULL, NULL, 'proto_version', '1', 'publication_names', 'p', 'messages', 'true')
"""


class Told:
    """What the log says to a reader of pgoutput."""

    def __init__(self, database: Database) -> None:
        self.database = database
        prepare(database, "CREATE PUBLICATION p")
        with database.connect() as connection:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [database.name])

    def messages(self) -> list[bytes]:
        """Those with our prefix since the last call."""
        with self.database.connect() as connection:
            found = [bytes(row[0]) for row in connection.execute(_CHANGES, [self.database.name])]
        return [each for each in found if PREFIX in each]

    def reasons(self) -> dict[str, Reason]:
        """Since the last call, by the relation's name."""
        found: dict[int, Reason] = {}
        for message in self.messages():
            note_rewrite(message, found)
        with self.database.connect() as connection:
            names = {oid: connection.execute("SELECT %s::oid::regclass::text", [oid]).fetchone() for oid in found}
        return {str((names[oid] or ("",))[0]): reason for oid, reason in found.items()}


def _emit(database: Database) -> str:
    """The function for a text, for a GRANT."""
    return f"pg_logical_emit_message(boolean, text, text{', boolean' if database.version >= 17 else ''})"


def _trigger(database: Database) -> Trigger:
    with database.connect() as connection:
        return trigger_of(connection)


@contextmanager
def role(database: Database) -> Iterator[str]:
    """A role that may do nothing but own its tables."""
    name = f"{database.name}_owner"
    prepare(database, f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    try:
        yield name
    finally:
        prepare(database, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


def test_it_is_made_as_printed_and_removed(any_database: Database) -> None:
    if any_database.binaries is not None:
        psql = [str(any_database.binaries / "psql"), "-X", "-v", "ON_ERROR_STOP=1", "-d", any_database.dsn]
        for _ in range(2):  # It replaces itself.
            subprocess.run(psql, input=SCRIPT.encode(), capture_output=True, check=True, timeout=60)
    else:
        prepare(any_database, SCRIPT, SCRIPT)
    assert _trigger(any_database) is Trigger.PRESENT
    prepare(any_database, TABLE, ALTER, *REMOVE.splitlines(), REMOVE)
    assert _trigger(any_database) is Trigger.ABSENT
    with any_database.connect() as connection:
        assert connection.execute("SELECT FROM pg_event_trigger").fetchall() == []
        assert connection.execute("SELECT FROM pg_proc WHERE proname = 'note_rewrite'").fetchall() == []


def test_what_is_found_of_it(any_database: Database) -> None:
    name = "tidemark_note_rewrite"
    assert _trigger(any_database) is Trigger.ABSENT
    prepare(any_database, SCRIPT)
    for state in ("DISABLE", "ENABLE", "ENABLE REPLICA"):
        prepare(any_database, f"ALTER EVENT TRIGGER {name} {state}")
        assert _trigger(any_database) is Trigger.DISABLED, state
    prepare(any_database, f"ALTER EVENT TRIGGER {name} ENABLE ALWAYS")
    assert _trigger(any_database) is Trigger.PRESENT
    for change in (
        "ALTER FUNCTION tidemark.note_rewrite() SECURITY INVOKER",
        "ALTER FUNCTION tidemark.note_rewrite() RESET search_path",
        "CREATE OR REPLACE FUNCTION tidemark.note_rewrite() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'",
        f"DROP EVENT TRIGGER {name}; CREATE EVENT TRIGGER {name} ON table_rewrite WHEN TAG IN ('ALTER TYPE') EXECUTE"
        f" FUNCTION tidemark.note_rewrite(); ALTER EVENT TRIGGER {name} ENABLE ALWAYS",
    ):
        prepare(any_database, change)
        assert _trigger(any_database) is Trigger.OTHER, change
        prepare(any_database, SCRIPT)
        assert _trigger(any_database) is Trigger.PRESENT


def test_a_function_of_somebody_else_is_not_taken_over(any_database: Database) -> None:
    """Replacing it would leave its owner who it was, who could then run what they like as whoever alters a table."""
    with role(any_database) as owner:
        prepare(
            any_database,
            f"CREATE SCHEMA tidemark AUTHORIZATION {owner}",
            f"SET ROLE {owner}; CREATE FUNCTION tidemark.note_rewrite() RETURNS event_trigger LANGUAGE plpgsql AS"
            " 'BEGIN END'; RESET ROLE",
            SCRIPT,
        )
        with any_database.connect() as connection:
            owners = "SELECT proowner::regrole::text = current_user FROM pg_proc WHERE proname = 'note_rewrite'"
            assert connection.execute(owners).fetchall() == [(True,)]


def test_what_it_writes(any_database: Database) -> None:
    prepare(
        any_database,
        TABLE,
        "INSERT INTO t VALUES (1, 1)",
        "CREATE TABLE p (id int, a int) PARTITION BY RANGE (id)",
        *(f"CREATE TABLE p{i} PARTITION OF p FOR VALUES FROM ({i}) TO ({i + 1})" for i in range(3)),
        SCRIPT,
    )
    told = Told(any_database)
    prepare(any_database, "ALTER TABLE t ALTER a TYPE int USING a + length('a secret')")
    (message,) = told.messages()
    assert b"secret" not in message and b"ALTER" not in message and len(message) < 60
    prepare(any_database, "ALTER TABLE t ADD b float8 DEFAULT random()")
    assert told.reasons() == {"t": Reason.DEFAULT}
    prepare(any_database, "ALTER TABLE p ALTER a TYPE text")
    assert told.reasons() == dict.fromkeys(("p0", "p1", "p2"), Reason.COLUMN)
    prepare(any_database, "ALTER TABLE t SET UNLOGGED", "ALTER TABLE t SET LOGGED")
    assert told.reasons() == {"t": Reason.PERSISTENCE}
    if any_database.version >= 15:
        prepare(any_database, "CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler")
        prepare(any_database, "ALTER TABLE t SET ACCESS METHOD heap2, ALTER a TYPE text")
        assert told.reasons() == {"t": Reason.ACCESS_METHOD | Reason.COLUMN}


def test_where_it_says_nothing(any_database: Database) -> None:
    prepare(any_database, TABLE, "INSERT INTO t VALUES (1, 1)", SCRIPT)
    told = Told(any_database)
    prepare(any_database, f"BEGIN; {ALTER}; ROLLBACK", f"BEGIN; SAVEPOINT s; {ALTER}; ROLLBACK TO s; COMMIT")
    prepare(any_database, "VACUUM FULL t", "CLUSTER t USING t_pkey", "TRUNCATE t", "ALTER TABLE t ADD c int DEFAULT 1")
    prepare(any_database, "CREATE TEMPORARY TABLE s (a int); ALTER TABLE s ALTER a TYPE text")
    with any_database.connect() as connection, pytest.raises(psycopg.errors.InvalidTextRepresentation):
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("ALTER TABLE t ALTER a TYPE int USING ('x' || id)::int")
    assert told.messages() == []  # An ALTER TABLE that failed is rolled back.


def test_it_runs_in_every_session(any_database: Database) -> None:
    prepare(any_database, TABLE, SCRIPT)
    told = Told(any_database)
    prepare(any_database, f"SET session_replication_role = replica; {ALTER}")
    assert told.reasons() == {"t": Reason.COLUMN}
    if any_database.version >= 17:
        prepare(any_database, f"SET event_triggers = off; {ALTER}")
        assert told.messages() == []


def test_an_owner_without_any_privilege(any_database: Database) -> None:
    with role(any_database) as owner:
        emit = f"EXECUTE ON FUNCTION {_emit(any_database)}"
        prepare(
            any_database,
            SCRIPT,
            TABLE,
            "INSERT INTO t VALUES (1, 1)",
            f"ALTER TABLE t OWNER TO {owner}",
            f"REVOKE {emit} FROM PUBLIC",
            "REVOKE ALL ON SCHEMA tidemark FROM PUBLIC",
            "REVOKE ALL ON FUNCTION tidemark.note_rewrite() FROM PUBLIC",
        )
        told = Told(any_database)
        prepare(any_database, f"SET ROLE {owner}; {ALTER}")
        assert told.reasons() == {"t": Reason.COLUMN}
        with any_database.connect() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SET ROLE {owner}")
            connection.execute("SELECT pg_logical_emit_message(true, 'x', 'x')")


def test_its_own_failure_fails_no_alter(any_database: Database) -> None:
    with role(any_database) as weak:
        prepare(
            any_database,
            SCRIPT,
            TABLE,
            "INSERT INTO t VALUES (1, 1)",
            f"REVOKE EXECUTE ON FUNCTION {_emit(any_database)} FROM PUBLIC",
            f"GRANT USAGE ON SCHEMA tidemark TO {weak}",
            f"ALTER FUNCTION tidemark.note_rewrite() OWNER TO {weak}",
        )
        told = Told(any_database)
        prepare(any_database, ALTER, f"BEGIN; {ALTER}; {ALTER}; COMMIT")
        assert told.messages() == []
        with any_database.connect() as connection:
            assert connection.execute("SELECT a FROM t").fetchall() == [(4,)]
        prepare(any_database, SCRIPT)


def test_names_that_hide_those_of_the_server(any_database: Database) -> None:
    """What stands first in the search_path of whoever alters a table is not called."""
    prepare(
        any_database,
        SCRIPT,
        TABLE,
        "CREATE TABLE public.pg_class (oid oid, relkind text, relpersistence text)",
        "CREATE FUNCTION public.concat_all(text, text) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'",
        "CREATE OPERATOR public.|| (FUNCTION = public.concat_all, LEFTARG = text, RIGHTARG = text)",
    )
    told = Told(any_database)
    prepare(any_database, f"SET search_path = public, pg_catalog; {ALTER}")
    assert told.reasons() == {"t": Reason.COLUMN}


def test_a_transaction_that_may_only_read(any_database: Database) -> None:
    """The server refuses the ALTER TABLE, as it does without the trigger."""
    prepare(any_database, SCRIPT, TABLE)
    with any_database.connect() as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute("SET default_transaction_read_only = on")
        connection.execute(ALTER)


@pytest.mark.parametrize("level", ["replica", "minimal"])
def test_a_server_whose_log_cannot_be_decoded(level: str) -> None:
    settings = {"wal_level": level, "max_wal_senders": "0"}
    with own_server(settings) as postgres, fresh_database(postgres, "undecoded") as database:
        prepare(database, SCRIPT, TABLE, "INSERT INTO t VALUES (1, 1)", ALTER)
        with database.connect() as connection:
            assert connection.execute("SELECT a FROM t").fetchall() == [(2,)]
