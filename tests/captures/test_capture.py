"""A capture session against a real server: what is emitted, what is acknowledged, where it goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from captures.postgres.lsn import parse_lsn
from tests.captures.session import Session, apply, bindings, session, unary
from tests.servers.deadline import wait_until
from tests.servers.postgres import Database

Json = dict[str, Any]


def _prepare(database: Database, *statements: str) -> None:
    with database.connect() as connection:
        for statement in statements:
            connection.execute(statement)


def _config(database: Database, **more: Any) -> Json:
    return {**database.config(), "slot": f"{database.name}_slot"[-60:], **more}


def _table(database: Database, query: str = "SELECT id, name FROM users") -> dict[tuple[Any, ...], Json]:
    with database.connect() as connection:
        cursor = connection.execute(query)
        names = [column.name for column in cursor.description or ()]
        return {(row[0],): dict(zip(names, row, strict=True)) for row in cursor}


def _position(database: Database) -> int:
    with database.connect() as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
    assert row is not None
    return parse_lsn(row[0])


USERS = "CREATE TABLE users (id int PRIMARY KEY, name text)"
FILL = "INSERT INTO users SELECT i, 'name ' || i FROM generate_series(1, 1000) i"
BOUND = bindings("public.users")


def test_a_backfill_and_the_log_after_it(any_database: Database) -> None:
    database = any_database
    _prepare(database, USERS, FILL)
    config = _config(database, backfill={"chunk_rows": 100})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        snapshot = [doc for _, doc in capture.documents]
        assert len(snapshot) == 1000
        assert snapshot[0] == {
            "_meta": {
                "op": "c",
                "source": {
                    "snapshot": True,
                    "schema": "public",
                    "table": "users",
                    "loc": [snapshot[0]["_meta"]["source"]["loc"][0], 0, 0],
                },
            },
            "id": 1,
            "name": "name 1",
        }
        _prepare(
            database,
            "UPDATE users SET name = 'changed' WHERE id = 5",
            "DELETE FROM users WHERE id = 6",
            "UPDATE users SET id = 2000 WHERE id = 7",
            "INSERT INTO users VALUES (3000, NULL)",
        )
        capture.until(lambda c: len(c.documents) >= 1005)
        changes = [doc for _, doc in capture.documents][1000:]
        assert [(doc["_meta"]["op"], doc["id"]) for doc in changes] == [
            ("u", 5),
            ("d", 6),
            ("d", 7),
            ("c", 2000),
            ("c", 3000),
        ]
        locations = [doc["_meta"]["source"]["loc"] for _, doc in capture.documents]
        assert locations == sorted(locations)
        assert capture.rows() == _table(database)


def test_documents_match_the_announced_schema(database: Database) -> None:
    _prepare(database, USERS, FILL)
    config = _config(database)
    apply(config, BOUND)
    with session(config, BOUND, stop=True) as capture:
        assert capture.finish() == 0
        (_, schema), *_ = capture.schemas
        assert schema["additionalProperties"] is False
        assert schema["properties"].keys() == {"_meta", "id", "name"}


def test_the_slot_moves_on_acknowledgement_only(database: Database) -> None:
    _prepare(database, USERS, FILL)
    config = _config(database)
    apply(config, BOUND)

    def confirmed() -> int:
        with database.connect() as connection:
            row = connection.execute(
                "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s", [config["slot"]]
            ).fetchone()
        assert row is not None
        return parse_lsn(row[0])

    before = confirmed()
    with session(config, BOUND) as capture:
        capture.until(Session.done, acknowledge=False)
        _prepare(database, "UPDATE users SET name = 'x'")
        capture.until(lambda c: len(c.documents) >= 2000, acknowledge=False)
        assert confirmed() == before
        capture.acknowledge()
        wait_until(lambda: confirmed() >= parse_lsn(capture.state["cursor"]), 20, "the slot moves")


def test_an_idle_capture_moves_its_slot_past_what_other_tables_write(database: Database) -> None:
    _prepare(database, USERS, "CREATE TABLE other (id int)")
    config = _config(database, heartbeat_seconds=0.3)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        _prepare(database, "INSERT INTO other SELECT generate_series(1, 1000)")
        written = _position(database)
        capture.until(lambda c: parse_lsn(c.state["cursor"]) >= written)
        assert capture.documents == []


def test_going_on_where_the_last_checkpoint_was(database: Database) -> None:
    _prepare(database, USERS, FILL)
    config = _config(database, backfill={"chunk_rows": 100})
    apply(config, BOUND)
    with session(config, BOUND) as first:
        first.until(lambda c: len(c.documents) >= 300)
    _prepare(database, "UPDATE users SET name = 'changed' WHERE id % 10 = 0", "DELETE FROM users WHERE id % 77 = 0")
    with session(config, BOUND, first.state, stop=True) as second:
        assert second.finish() == 0
    documents = [doc for _, doc in first.documents + second.documents]
    snapshot = [doc["id"] for doc in documents if doc["_meta"]["source"].get("snapshot")]
    assert len(snapshot) == len(set(snapshot)), "what was checkpointed is not read again"
    second.documents[:0] = first.documents
    assert second.rows() == _table(database)
    with session(config, BOUND, second.state, stop=True) as third:
        assert third.finish() == 0
        assert third.documents == []


def test_an_unchanged_large_value_is_read_again_until_it_is_whole(database: Database) -> None:
    """Rows that are updated all the time without their large column must end with it all the same."""
    _prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, n int, bio text)",
        "ALTER TABLE users ALTER bio SET STORAGE EXTERNAL",
        "INSERT INTO users SELECT i, 0, repeat(i::text || ' ', 3000) FROM generate_series(1, 200) i",
    )
    config = _config(database, backfill={"chunk_rows": 10})
    apply(config, BOUND)
    stop = threading.Event()

    def update() -> None:
        with database.connect() as connection:
            while not stop.is_set():
                connection.execute("UPDATE users SET n = n + 1 WHERE id % 5 = 0")

    writer = threading.Thread(target=update)
    writer.start()
    try:
        with session(config, BOUND) as capture:
            capture.until(lambda c: len(c.documents) > 2000)
            assert any("unchanged" in doc["_meta"] for _, doc in capture.documents)
            stop.set()
            writer.join()
            capture.until(Session.done)
            # A row that comes to another key without its large value has to be read again, backfill or not.
            _prepare(database, "UPDATE users SET id = id + 1000 WHERE id % 7 = 0")
            end = _position(database)
            capture.until(lambda c: c.done() and parse_lsn(c.state["cursor"]) >= end)
            assert capture.rows() == _table(database, "SELECT id, n, bio FROM users")
    finally:
        stop.set()
        writer.join()


def test_truncate(database: Database) -> None:
    _prepare(database, USERS, FILL)
    config = _config(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        _prepare(database, "TRUNCATE users", "INSERT INTO users VALUES (1, 'after')")
        capture.until(lambda c: len(c.documents) >= 1002)
        assert capture.documents[1000][1]["_meta"]["op"] == "t"
        assert capture.rows() == {(1,): {"id": 1, "name": "after"}}


def test_truncate_can_be_ignored(database: Database) -> None:
    _prepare(database, USERS, FILL)
    config = _config(database, truncate="ignore")
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        _prepare(database, "TRUNCATE users", "INSERT INTO users VALUES (1, 'after')")
        capture.until(lambda c: len(c.documents) >= 1001)
        assert capture.documents[-1][1]["_meta"]["op"] == "c"


def test_rows_of_any_key_and_condition(database: Database) -> None:
    _prepare(
        database,
        'CREATE TABLE "odd one" ("Key A" text, "key,b" numeric, v int, PRIMARY KEY ("Key A", "key,b"))',
        """INSERT INTO "odd one"
           SELECT 'it''s \\ ' || chr(233) || (i % 7), i / 10.0, i FROM generate_series(1, 500) i""",
    )
    config = _config(database, backfill={"chunk_rows": 37})
    bound = bindings("public.odd one", where="v % 2 = 0")
    apply(config, bound)
    with session(config, bound, stop=True) as capture:
        assert capture.finish() == 0
        found = {doc["v"] for _, doc in capture.documents}
        assert len(capture.documents) == 250
        assert found == set(range(2, 501, 2))


def test_columns_that_are_added_while_running(database: Database) -> None:
    _prepare(database, USERS, FILL)
    config = _config(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        _prepare(
            database,
            "ALTER TABLE users ADD COLUMN age int, DROP COLUMN name",
            "INSERT INTO users VALUES (5000, 42)",
        )
        capture.until(lambda c: len(c.documents) >= 1001)
        assert capture.documents[-1][1]["age"] == 42
        assert capture.schemas[-1][1]["properties"].keys() == {"_meta", "id", "age"}


def test_excluded_and_generated_columns_are_in_no_document(database: Database) -> None:
    _prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name text, secret text,"
        " twice int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO users VALUES (1, 'a', 'hidden')",
    )
    config = _config(database)
    bound = bindings("public.users", exclude=["secret"])
    apply(config, bound)
    with session(config, bound) as capture:
        capture.until(Session.done)
        _prepare(database, "UPDATE users SET name = 'b', secret = 'hidden too'")
        capture.until(lambda c: len(c.documents) >= 2)
        for _, document in capture.documents:
            assert document.keys() == {"_meta", "id", "name"}


def test_a_transaction_that_is_rolled_back_is_not_there(database: Database) -> None:
    _prepare(database, USERS)
    config = _config(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        with database.connect(autocommit=False) as connection:
            connection.execute("INSERT INTO users VALUES (1, 'no')")
            connection.rollback()
            connection.execute("INSERT INTO users VALUES (2, 'yes')")
            with connection.transaction(force_rollback=True):
                connection.execute("INSERT INTO users VALUES (3, 'no')")
            connection.execute("INSERT INTO users VALUES (4, 'yes')")
            connection.commit()
        capture.until(lambda c: len(c.documents) >= 2)
        assert [doc["id"] for _, doc in capture.documents] == [2, 4]
        assert len({doc["_meta"]["source"]["txid"] for _, doc in capture.documents}) == 1


def _fails_with(code: str, config: Json, state: Json, prepare: Callable[[], None] = lambda: None) -> None:
    prepare()
    with session(config, BOUND, state) as capture:
        assert capture.finish() == 1
        assert capture.logs[-1]["fields"]["code"] == code
        assert capture.documents == []


def test_a_lost_position_is_found_before_anything_is_emitted(database: Database) -> None:
    _prepare(database, USERS, FILL)
    config = _config(database)
    apply(config, BOUND)
    with session(config, BOUND, stop=True) as capture:
        assert capture.finish() == 0
    state = capture.state

    # The position is ahead of the server: it was restored from a backup.
    _fails_with("TM-PG-016", config, {**state, "cursor": "FFFF/0"})
    # Another server.
    _fails_with("TM-PG-016", config, {**state, "source": {"system": "1"}})
    # A slot that was dropped, and one that was made again past our position.
    with database.connect() as connection:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [config["slot"]])
    _fails_with("TM-PG-015", config, state)
    _prepare(database, "INSERT INTO users VALUES (-1, 'between')")
    apply(config, BOUND)
    _fails_with("TM-PG-015", config, state)


def test_a_slot_in_use_names_who_uses_it(database: Database) -> None:
    _prepare(database, USERS)
    config = _config(database)
    apply(config, BOUND)
    with session(config, BOUND) as first:
        first.until(Session.done)
        with session(config, BOUND) as second:
            assert second.finish() == 1
            assert second.logs[-1]["fields"]["code"] == "TM-PG-014"
            assert "tidemark" in second.logs[-1]["message"]


def test_what_comes_on_stdin_while_capturing(database: Database) -> None:
    _prepare(database, USERS)
    config = _config(database)
    apply(config, BOUND)
    for line, code in [
        (b"not json\n", "TM-PRO-001"),
        (b'{"spec":{}}\n', "TM-PRO-004"),
        (b'{"acknowledge":{"checkpoints":0}}\n', "TM-PRO-003"),
        (b'{"acknowledge":{"checkpoints":99}}\n', "TM-PRO-007"),
    ]:
        with session(config, BOUND) as capture:
            capture.until(Session.done, acknowledge=False)
            capture.send(line)
            assert capture.finish() == 1
            assert capture.logs[-1]["fields"]["code"] == code


def test_the_end_of_stdin_ends_a_capture_well(database: Database) -> None:
    _prepare(database, USERS, FILL)
    config = _config(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        assert capture.process.stdin is not None
        capture.process.stdin.close()
        assert capture.process.wait(timeout=20) == 0


def test_a_terminated_walsender_is_an_error_that_passes(database: Database) -> None:
    _prepare(database, USERS)
    config = _config(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        with database.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s",
                [config["slot"]],
            )
        assert capture.finish() == 1
        assert capture.logs[-1]["fields"]["code"] == "TM-PG-020"


def test_a_missing_privilege_to_publish_is_an_error_with_the_statement(database: Database) -> None:
    role = f"{database.name}_cdc"
    _prepare(database, USERS, f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'", f"GRANT SELECT ON users TO {role}")
    try:
        config = _config(database, user=role, password="x")
        request = {"apply": {"capture": {"name": "test", "config": config, "bindings": BOUND}}}
        status, messages, logs = unary(request)
        assert (status, messages) == (1, [])
        assert logs[-1]["fields"]["code"] == "TM-PG-011"
        assert 'CREATE PUBLICATION "tidemark" FOR TABLE ONLY "public"."users"' in logs[-1]["fields"]["remedy"]
    finally:
        with database.connect() as connection, connection.transaction():
            connection.execute(f"REVOKE ALL ON users FROM {role}")
            connection.execute(f"DROP ROLE {role}")


def test_a_chunk_holds_no_snapshot_longer_than_itself(database: Database) -> None:
    _prepare(database, USERS, FILL)
    config = _config(database, backfill={"chunk_rows": 50})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        with database.connect() as connection:
            open_transactions = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemark' AND xact_start IS NOT NULL"
                " AND backend_type = 'client backend' AND datname = current_database()"
            ).fetchone()
        assert open_transactions == (0,)


def test_the_source_is_not_written_to_when_read_only(database: Database) -> None:
    _prepare(database, USERS, FILL)
    config = _config(database)
    apply(config, BOUND)
    with session({**config, "read_only": True, "backfill": {"chunk_rows": 200}}, BOUND, stop=True) as capture:
        assert capture.finish() == 0
        assert capture.rows() == _table(database)


def test_the_password_is_nowhere(database: Database) -> None:
    _prepare(database, USERS)
    config = _config(database, password="secret-word")
    try:
        apply(config, BOUND)
    except AssertionError as refused:
        assert "secret-word" not in str(refused)
    with session(config, BOUND, stop=True) as capture:
        capture.process.wait(timeout=30)
        assert "secret-word" not in str(capture.logs) + str(capture.state)
        arguments = capture.process.args
        assert "secret-word" not in str(arguments)


def test_making_a_slot_says_which_transactions_it_waits_for(database: Database) -> None:
    _prepare(database, USERS)
    config = _config(database)
    with database.connect(autocommit=False) as writer:
        writer.execute("INSERT INTO users VALUES (1, 'in a long transaction')")
        pid = writer.info.backend_pid
        request = {"apply": {"capture": {"name": "test", "config": config, "bindings": BOUND}}}
        with ThreadPoolExecutor(1) as threads:
            applying = threads.submit(unary, request)
            with database.connect() as admin:
                making = "SELECT FROM pg_replication_slots WHERE slot_name = %s"
                wait_until(lambda: admin.execute(making, [config["slot"]]).fetchone() is not None, 20, "a slot begins")
                # The connector asks who holds it up, on its other session, whenever it has waited for some time.
                asked = (
                    "SELECT FROM pg_stat_activity WHERE query LIKE '%string_agg(pid::text%' AND pid <> pg_backend_pid()"
                )
                wait_until(lambda: admin.execute(asked).fetchone() is not None, 20, "it asks who holds it up")
            assert not applying.done()
            writer.commit()
            status, _, logs = applying.result(timeout=30)
    assert status == 0
    assert any(str(pid) in line["message"] for line in logs if line["level"] == "warning")
    with session(config, BOUND, stop=True) as capture:
        assert capture.finish() == 0
        assert capture.rows() == _table(database)
