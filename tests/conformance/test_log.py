"""What the log gives: transactions whole and in order, truncates, nothing that was rolled back."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.captures.session import Process, Session
from tests.conformance.engine import Engine


def test_truncate(engine: Engine) -> None:
    engine.users(100)
    with engine.capture(engine.bindings("users")) as capture:
        capture.until(Session.done)
        engine.execute("TRUNCATE TABLE users", "INSERT INTO users VALUES (1, 'after')")
        capture.until(lambda c: len(c.documents) >= 102)
        assert capture.documents[100][1]["_meta"]["op"] == "t"
        assert capture.documents[100][1].keys() == {"_meta"}
        assert capture.rows() == {(1,): {"id": 1, "name": "after"}}


def test_truncate_while_the_table_is_read(engine: Engine) -> None:
    engine.users(500)
    with engine.capture(engine.bindings("users"), backfill={"chunk_rows": 20}) as capture:
        capture.until(lambda c: len(c.documents) >= 50)
        engine.execute("TRUNCATE TABLE users", "INSERT INTO users VALUES (400, 'after')")
        engine.until_equal(capture, "users")


def test_truncate_can_be_ignored(engine: Engine) -> None:
    engine.users(100)
    with engine.capture(engine.bindings("users"), truncate="ignore") as capture:
        capture.until(Session.done)
        engine.execute("TRUNCATE TABLE users", "INSERT INTO users VALUES (1, 'after')")
        capture.until(lambda c: len(c.documents) >= 101)
        assert capture.documents[-1][1]["_meta"]["op"] == "c"


def test_what_is_rolled_back_is_not_there(engine: Engine) -> None:
    engine.users(0)
    with engine.capture(engine.bindings("users")) as capture:
        capture.until(Session.done)
        with engine.transaction() as run:
            run("INSERT INTO users VALUES (1, 'no')")
            run("ROLLBACK")
        with engine.transaction() as run:
            run("INSERT INTO users VALUES (2, 'yes')")
            run("SAVEPOINT here")
            run("INSERT INTO users VALUES (3, 'no')")
            run("ROLLBACK TO SAVEPOINT here")
            run("INSERT INTO users VALUES (4, 'yes')")
        capture.until(lambda c: len(c.documents) >= 2)
        assert [doc["id"] for _, doc in capture.documents] == [2, 4]
        assert len({doc["_meta"]["source"]["txid"] for _, doc in capture.documents}) == 1


def test_a_transaction_on_several_tables_keeps_its_order(engine: Engine) -> None:
    engine.users(0)
    engine.execute("CREATE TABLE other (id int PRIMARY KEY)", "CREATE TABLE not_captured (id int PRIMARY KEY)")
    with engine.capture(engine.bindings("users", "other")) as capture:
        capture.until(Session.done)
        with engine.transaction() as run:
            for number in range(20):
                run(f"INSERT INTO {['users (id)', 'other', 'not_captured'][number % 3]} VALUES ({number})")
        capture.until(lambda c: len(c.documents) >= 14)
        assert [(at, doc["id"]) for at, doc in capture.documents] == [(n % 3, n) for n in range(20) if n % 3 < 2]
        assert len({doc["_meta"]["source"]["txid"] for _, doc in capture.documents}) == 1


def test_places_in_the_log_rise(engine: Engine) -> None:
    engine.users(100)
    with engine.capture(engine.bindings("users"), backfill={"chunk_rows": 10}) as capture:
        for number in range(5):
            engine.execute(f"UPDATE users SET name = '{number}' WHERE id % 10 = {number}")
        engine.until_equal(capture, "users")
        places = [engine.place(doc) for _, doc in capture.documents]
        assert places == sorted(places)
        log = [engine.place(doc) for _, doc in capture.documents if "snapshot" not in doc["_meta"]["source"]]
        assert all(before < after for before, after in pairwise(log))


DOUBLINGS = 17
MEMORY_KIB = 32 * 1024


@pytest.mark.heavy
@pytest.mark.drawn(1)
def test_a_large_transaction_needs_little_memory(engine: Engine) -> None:
    """Its documents, some 50 MB, go out while it is read; there is no checkpoint before its end."""
    engine.execute("CREATE TABLE users (id int PRIMARY KEY, name varchar(400))")
    engine.insert("users", [(0, "x" * 400)])
    with engine.capture(engine.bindings("users")) as capture:
        capture.until(Session.done)
        before = peak_memory(capture.process)
        with engine.transaction() as run:
            for doubling in range(DOUBLINGS):
                run(f"INSERT INTO users SELECT id + {2**doubling}, name FROM users")
            run("UPDATE users SET name = 'the last' WHERE id = 0")
        seen = capture.skim(b'"the last"')
        assert seen.documents == 2**DOUBLINGS - 1
        assert seen.size > 1.5 * MEMORY_KIB * 1024
        assert seen.interruptions == 0, "a checkpoint cut the transaction"
        assert peak_memory(capture.process) - before < MEMORY_KIB
        capture.until(lambda c: len(c.documents) == 2)


def peak_memory(process: Process) -> int:
    """The most memory the process has held, in KiB (proc_pid_status(5), VmHWM)."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
