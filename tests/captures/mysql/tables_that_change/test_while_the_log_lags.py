"""Tables that change while the capture is away: the log has rows of before, the catalog only what is now."""

from __future__ import annotations

import sys

import pytest

from tests.captures.impatient import aside_of, impatient
from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Json, Session, bindings, session
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


def _captured(database: Database, bound: list[Json], *statements: str, state: Json | None = None) -> Session:
    """A session after the statements, to its end."""
    run(database, *statements)
    with session(database.config(), bound, state, stop=True, command=impatient("tidemark.connectors.mysql")) as capture:
        capture.finish()
        return capture


NEW_KEYS = {
    "none": ["ALTER TABLE t DROP PRIMARY KEY"],
    "none, and duplicates": ["ALTER TABLE t DROP PRIMARY KEY", "INSERT INTO t VALUES (1, 9, 9)"],
    "made without": [
        "DROP TABLE t",
        "CREATE TABLE t (id INT, u INT NOT NULL, v INT)",
        "INSERT INTO t VALUES (5, 5, 5)",
    ],
}


@pytest.mark.parametrize("how", NEW_KEYS)
def test_a_key_that_is_dropped(binlog_database: Database, how: str) -> None:
    """The others go on, and it comes back with a key."""
    for table in ("t", "other"):
        run(binlog_database, f"CREATE TABLE {table} (id INT PRIMARY KEY, u INT NOT NULL, v INT)")
        run(binlog_database, f"INSERT INTO {table} VALUES (1, 1, 1), (2, 2, 2)")
    bound = bindings(f"{binlog_database.name}.t", f"{binlog_database.name}.other")
    first = _captured(binlog_database, bound)
    second = _captured(
        binlog_database,
        bound,
        "UPDATE t SET v = 3",
        *NEW_KEYS[how],
        "INSERT INTO other VALUES (3, 3, 3)",
        state=first.state,
    )
    assert second.process.returncode == 1
    assert second.logs[-1]["fields"]["code"] == "TM-CAP-007", second.last_words()
    aside = aside_of(second, "t")
    assert aside is not None and aside["code"] == "TM-MY-009"
    assert (3,) in second.rows(1)
    third = _captured(
        binlog_database, bound, "DELETE FROM t WHERE v = 9", "ALTER TABLE t ADD PRIMARY KEY (id)", state=second.state
    )
    assert third.process.returncode == 0, third.last_words()
    third.documents[:0] = [*first.documents, *second.documents]
    expected = (
        {(5,): {"id": 5, "u": 5, "v": 5}}
        if how == "made without"
        else {(n,): {"id": n, "u": n, "v": 3} for n in (1, 2)}
    )
    assert third.rows(0) == expected


@pytest.mark.parametrize(("metadata", "key"), [("FULL", ["u"]), ("NO_LOG", ["u", "id"])])
def test_another_key_in_the_middle_of_a_backfill(binlog_database: Database, key: list[str], metadata: str) -> None:
    """The key is dropped while the capture is away, and made again while it is away once more: no key that was read
    says where the backfill stands.
    """
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"):
        run(
            binlog_database,
            "CREATE TABLE t (id INT PRIMARY KEY, u INT NOT NULL, v INT)",
            "CREATE TABLE other (id INT PRIMARY KEY)",
            "INSERT INTO t SELECT seq, 5000 - seq, seq FROM seq_1_to_1000",
        )
        bound = bindings(f"{binlog_database.name}.t", f"{binlog_database.name}.other")
        config = {**binlog_database.config(), "backfill": {"chunk_rows": 50}}
        slowly = {**config, "backfill": {"chunk_rows": 50, "max_rate": "400 rows/s"}}
        with session(slowly, bound, command=COMMAND) as first:
            first.until(lambda c: len(c.documents) > 200)
            assert not first.done()
        run(
            binlog_database,
            "DELETE FROM t WHERE id = 1",
            "UPDATE t SET v = -1 WHERE id IN (2, 999)",
            "INSERT INTO t VALUES (7777, 3, 3)",
            "ALTER TABLE t DROP PRIMARY KEY",
        )
        with session(config, bound, first.state, command=impatient("tidemark.connectors.mysql")) as second:
            second.until(lambda c: aside_of(c, "t"))
            run(binlog_database, "INSERT INTO other VALUES (1)", "UPDATE t SET v = -2 WHERE id = 998")
            second.until(lambda c: (1,) in c.rows(1))
        run(binlog_database, f"ALTER TABLE t ADD PRIMARY KEY ({', '.join(key)})")
        rows = [{"id": n, "u": 5000 - n, "v": {2: -1, 998: -2, 999: -1}.get(n, n)} for n in range(2, 1001)]
        expected = {tuple(row[name] for name in key): row for row in [*rows, {"id": 7777, "u": 3, "v": 3}]}
        with session(config, bound, second.state, command=impatient("tidemark.connectors.mysql")) as third:
            third.documents[:0] = [*first.documents, *second.documents]
            third.until(lambda c: c.done() and c.rows(key=key) == expected)


def test_the_only_table_has_no_key(binlog_database: Database) -> None:
    """The capture ends with what is wrong, and goes on once there is a key."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    bound = bindings(f"{binlog_database.name}.t")
    first = _captured(binlog_database, bound)
    second = _captured(
        binlog_database, bound, "UPDATE t SET v = 2", "ALTER TABLE t DROP PRIMARY KEY", state=first.state
    )
    assert second.process.returncode == 1 and second.logs[-1]["fields"]["code"] == "TM-MY-009", second.last_words()
    third = _captured(binlog_database, bound, "ALTER TABLE t ADD PRIMARY KEY (id)", state=first.state)
    third.documents[:0] = first.documents
    assert third.rows() == {(1,): {"id": 1, "v": 2}}


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_another_key_that_was_none_before(binlog_database: Database, metadata: str) -> None:
    """Rows of the log that differed in the old key only are one by the new one."""
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"):
        run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, u INT NOT NULL)", "INSERT INTO t VALUES (1, 1)")
        bound = bindings(f"{binlog_database.name}.t")
        first = _captured(binlog_database, bound)
        second = _captured(
            binlog_database,
            bound,
            "INSERT INTO t VALUES (2, 1)",
            "DELETE FROM t WHERE id = 2",
            "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (u)",
            state=first.state,
        )
        second.documents[:0] = first.documents
        assert second.rows(key=["u"]) == {(1,): {"id": 1, "u": 1}}


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
@pytest.mark.parametrize("versioned_again", [False, True])
def test_a_table_that_was_system_versioned_for_a_while(
    mariadb_database: Database, metadata: str, versioned_again: bool
) -> None:
    """The catalog no longer says so, and the log has its history as rows. None of it comes downstream."""
    database = mariadb_database
    with global_setting(database, "binlog_row_metadata", f"'{metadata}'"):
        run(database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE other (id INT PRIMARY KEY)")
        run(database, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
        bound = bindings(f"{database.name}.t", f"{database.name}.other")
        first = _captured(database, bound)
        again = ["ALTER TABLE t ADD SYSTEM VERSIONING", "DELETE FROM t WHERE id = 4"] if versioned_again else []
        statements = [
            "DELETE FROM t WHERE id = 1",
            "ALTER TABLE t ADD SYSTEM VERSIONING",
            "DELETE FROM t WHERE id = 2",
            "UPDATE t SET v = 30 WHERE id = 3",
            "ALTER TABLE t DROP SYSTEM VERSIONING",
            "UPDATE t SET v = 40 WHERE id = 4",
            *again,
            "INSERT INTO other VALUES (1)",
        ]
        run(database, *statements)
        command = impatient("tidemark.connectors.mysql")
        with session(database.config(), bound, first.state, command=command) as second:
            second.documents[:0] = first.documents
            second.until(lambda c: (1,) in c.rows(1))
            if versioned_again:
                second.until(lambda c: aside_of(c, "t"))
                run(database, "ALTER TABLE t DROP SYSTEM VERSIONING")
            rows = {(3,): {"id": 3, "v": 30}} | ({} if versioned_again else {(4,): {"id": 4, "v": 40}})
            second.until(lambda c: c.done() and c.rows() == rows)
        assert all(document.keys() <= {"id", "v", "_meta"} for binding, document in second.documents if binding == 0)


def _nulls_that_fit(capture: Session) -> int:
    """How many there are in documents; the schema before each of them lets its column be null."""
    nullable: dict[str, bool] = {}
    nulls = 0
    for kind, _, body in capture.events:
        if kind == "schema":
            nullable = {name: "null" in member["type"] for name, member in body["properties"].items() if name in "vw"}
        if kind != "doc":
            continue
        for row in (body, body["_meta"].get("before", {})):
            found = [name for name in nullable if body["_meta"]["op"] != "t" and row.get(name, 0) is None]
            assert all(nullable[name] for name in found), body
            nulls += len(found)
    assert nullable == {"v": False, "w": False}
    return nulls


@pytest.mark.parametrize(("metadata", "away"), [("FULL", True), ("NO_LOG", True), ("FULL", False)])
def test_columns_that_take_null_no_more(binlog_database: Database, metadata: str, away: bool) -> None:
    """The schema that is announced fits the rows that follow it, and those before an UPDATE or DELETE."""
    statements = [
        "INSERT INTO t VALUES (1, NULL, NULL)",
        "UPDATE t SET v = 1, w = 'w'",
        "ALTER TABLE t MODIFY v INT NOT NULL, MODIFY w TEXT NOT NULL",
        "INSERT INTO t VALUES (2, 2, 'x')",
        "ALTER TABLE t MODIFY v INT NULL",
        "INSERT INTO t VALUES (3, NULL, 'y'), (4, NULL, 'z')",
        "DELETE FROM t WHERE id = 3",
        "UPDATE t SET v = 4 WHERE id = 4",
        "ALTER TABLE t MODIFY v INT NOT NULL",
        "INSERT INTO t VALUES (5, 5, 'z')",
    ]
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"):
        run(
            binlog_database,
            "CREATE TABLE t (id INT PRIMARY KEY, v INT, w TEXT)",
            "INSERT INTO t VALUES (0, NULL, NULL)",
        )
        bound = bindings(f"{binlog_database.name}.t")
        if away:
            first = _captured(binlog_database, bound)
            capture = _captured(binlog_database, bound, *statements, state=first.state)
            capture.documents[:0] = first.documents
            capture.events[:0] = first.events
        else:
            with session(binlog_database.config(), bound, command=COMMAND) as capture:
                capture.until(Session.done)
                run(binlog_database, *statements)
                capture.until(lambda c: c.done() and (5,) in c.rows())
    assert _nulls_that_fit(capture) >= (2 if away else 8)
    found = {key: (row["v"], row["w"]) for (key,), row in capture.rows().items()}
    assert found == {0: (1, "w"), 1: (1, "w"), 2: (2, "x"), 4: (4, "z"), 5: (5, "z")}


def test_a_column_with_a_reserved_name_that_is_gone(binlog_database: Database) -> None:
    """Of rows that still have it, documents have one ``_meta``."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(binlog_database, "t") as log:
        position, identity = str(log.log.log_position), log.source.identity()
    run(
        binlog_database,
        "ALTER TABLE t ADD COLUMN _meta INT",
        "INSERT INTO t VALUES (1, 7)",
        "ALTER TABLE t CHANGE _meta m INT",
        "INSERT INTO t VALUES (2, 8)",
    )
    with captured_log(binlog_database, "t", cursor=position, identity=identity) as log:
        log.read()
        assert all(line.count(b'"_meta"') == 1 for line in log.lines)
        assert plain(log.documents)[-1] == ("c", {"id": 2, "m": 8})


def test_an_excluded_column_that_is_dropped(binlog_database: Database) -> None:
    """While it is captured, and at the next start."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, secret INT, v INT)", "INSERT INTO t VALUES (1, 1, 1)")
    bound = bindings(f"{binlog_database.name}.t", exclude=["secret"])
    with session(binlog_database.config(), bound, command=COMMAND) as capture:
        capture.until(Session.done)
        run(binlog_database, "ALTER TABLE t DROP COLUMN secret", "INSERT INTO t VALUES (2, 2)")
        capture.until(lambda c: (2,) in c.rows())
        assert aside_of(capture, "t") is None
    after = _captured(binlog_database, bound, "INSERT INTO t VALUES (3, 3)", state=capture.state)
    assert after.process.returncode == 0, after.last_words()
    assert (3,) in after.rows()


@pytest.mark.parametrize(
    "options",
    [{"exclude": ["secret"]}, {"hash": ["secret"]}, {"on_bad_value": {"secret": "null"}}],
    ids=["exclude", "hash", "on_bad_value"],
)
def test_a_column_that_options_name_is_dropped_while_away(binlog_database: Database, options: Json) -> None:
    """At the start after it, and at the one after that."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, secret INT, v INT)", "INSERT INTO t VALUES (1, 1, 1)")
    bound = bindings(f"{binlog_database.name}.t", **options)
    salted = {**binlog_database.config(), "hash_salt": "salt"}
    documents: list[tuple[int, Json]] = []
    state: Json | None = None
    for statements in (
        [],
        ["INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t DROP COLUMN secret", "INSERT INTO t VALUES (3, 3)"],
        ["INSERT INTO t VALUES (4, 4)"],
    ):
        run(binlog_database, *statements)
        with session(salted, bound, state, stop=True, command=COMMAND) as capture:
            assert capture.finish() == 0, capture.last_words()
        state = capture.state
        documents += capture.documents
    capture.documents = documents
    assert {key: row["v"] for (key,), row in capture.rows().items()} == {1: 1, 2: 2, 3: 3, 4: 4}
    assert ("exclude" in options) == all("secret" not in document for _, document in documents)


@pytest.mark.parametrize("other", [{}, {"exclude": ["v"], "hash": ["secret"]}])
def test_a_column_that_is_no_longer_excluded(binlog_database: Database, other: Json) -> None:
    """Rows that were captured before have it, too, and are not emptied for it; they are read again once."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, secret INT, v INT)", "INSERT INTO t VALUES (1, 1, 1)")
    name = f"{binlog_database.name}.t"
    salted = {**binlog_database.config(), "hash_salt": "salt"}
    documents = []
    state: Json | None = None
    for options in ({"exclude": ["secret"]}, other, other):
        with session(salted, bindings(name, **options), state, stop=True, command=COMMAND) as capture:
            assert capture.finish() == 0, capture.last_words()
        state = capture.state
        documents.append([document for _, document in capture.documents])
    assert [len(each) for each in documents] == [1, 1, 0]
    ((again,),) = documents[1:2]
    assert again["_meta"]["op"] == "c" and again.keys() - {"_meta"} == {
        "id",
        "secret",
        *({"v"} - {*other.get("exclude", ())}),
    }
    assert (again["secret"] == 1) == (not other)


def test_a_name_that_is_used_again_in_a_later_session(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    bound = bindings(f"{binlog_database.name}.t")
    first = _captured(binlog_database, bound)
    second = _captured(binlog_database, bound, "ALTER TABLE t DROP COLUMN a", state=first.state)
    third = _captured(binlog_database, bound, "ALTER TABLE t ADD COLUMN a INT", state=second.state)
    third.documents[:0] = [*first.documents, *second.documents]
    assert third.rows(whole=True) == {(1,): {"id": 1, "a": None}}


def _swap(a: str, b: str) -> str:
    return f"RENAME TABLE {a} TO middle, {b} TO {a}, middle TO {b}"


@pytest.mark.parametrize("away", [False, True])
def test_two_captured_tables_that_swap_names(binlog_database: Database, away: bool) -> None:
    for table, v in (("t", 1), ("other", 2)):
        run(binlog_database, f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
        run(binlog_database, f"INSERT INTO {table} VALUES (1, {v}), ({v * 10}, {v})")
    bound = bindings(f"{binlog_database.name}.t", f"{binlog_database.name}.other")
    statements = [
        "UPDATE t SET v = 7",
        _swap("t", "other"),
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO other VALUES (3, 3)",
    ]
    expected = [{(20,): {"id": 20, "v": 2}}, {(n,): {"id": n, "v": 3 if n == 3 else 7} for n in (1, 3, 10)}]
    if away:
        first = _captured(binlog_database, bound)
        second = _captured(binlog_database, bound, *statements, state=first.state)
        second.documents[:0] = first.documents
        assert [second.rows(0), second.rows(1)] == expected
        return
    with session(binlog_database.config(), bound, command=COMMAND) as capture:
        capture.until(Session.done)
        run(binlog_database, *statements)
        capture.until(lambda c: c.done() and [c.rows(0), c.rows(1)] == expected)
