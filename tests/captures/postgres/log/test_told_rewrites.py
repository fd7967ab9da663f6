"""The event trigger tells in the log that a table was rewritten: it is compared there, and nothing is believed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.captures.postgres.log_reading import PostgresLog, capturing
from tests.captures.source_tables import prepare
from tidemark.captures.contract.table_changes import Consequence
from tidemark.captures.postgres.server.rewrite_trigger import MOST, PREFIX, SCRIPT, Reason, note_rewrite
from tidemark.captures.postgres.tables_that_change import table_changes
from tidemark.testing.servers.postgres import Database

TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, a int, b text)",
    "INSERT INTO t SELECT i, i, 'b' FROM generate_series(1, 9) i",
)
PARTS = (
    "CREATE TABLE t (id int PRIMARY KEY, a int, b text) PARTITION BY RANGE (id)",
    "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (5)",
    "CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (5) TO (1000)",
    TABLE[1],
)
TELL = "SELECT pg_logical_emit_message({}, '{}', {})"


@pytest.fixture(autouse=True)
def no_look(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The catalogs are looked at for nothing but what the log shows."""
    monkeypatch.setattr(table_changes, "LOOK_SECONDS", 3600.0)
    yield


def _causes(reader: PostgresLog) -> list[str]:
    """What came of what the log has now, and is not known yet."""
    known = len(reader.causes)
    end = reader.source.end_of_log()
    log, found = reader.log, reader.source.followed.found
    reader.until(lambda: log.between_transactions and log.position >= end and not found)
    return reader.causes[known:]


ALTER = "ALTER TABLE t ALTER a TYPE int USING a + 1"


ALTERATIONS = [
    (ALTER, "column_rewritten"),
    ("ALTER TABLE t ALTER a TYPE bigint", "column_rewritten"),
    ("ALTER TABLE t ADD c float8 DEFAULT random()", "column_filled"),
    ("ALTER TABLE t ADD c float8 DEFAULT random(), ALTER a TYPE text", "column_rewritten"),
]
# The server alters no column that tells a row's partition.
OF_THE_KEY = ("ALTER TABLE t ALTER id TYPE int USING id + 1000", "key_values")


@pytest.mark.parametrize(
    ("create", "alter", "cause"),
    [*((create, *altered) for create in (TABLE, PARTS) for altered in ALTERATIONS), (TABLE, *OF_THE_KEY)],
)
def test_it_is_decided_where_the_log_says_so(
    any_database: Database, create: tuple[str, ...], alter: str, cause: str
) -> None:
    prepare(any_database, *create, SCRIPT)
    with capturing(any_database, "t") as reader:
        prepare(any_database, "INSERT INTO t (id) VALUES (20)", alter, *(
            f"INSERT INTO t (id) VALUES ({number})" for number in range(30, 60)
        ))  # fmt: skip
        reader.until(lambda: reader.restarted or reader.to_read_again)
        assert cause in reader.causes
        assert reader.ids() == [("c", 20)], "later changes were read first"
        assert _causes(reader) == []
        assert reader.ids()[1:] == [("c", number) for number in range(30, 60)]


def test_what_happens_to_the_table_later_waits(any_database: Database) -> None:
    """The catalogs no longer show the table as it was there: it is compared once, where the log ends."""
    prepare(any_database, *TABLE, SCRIPT)
    with capturing(any_database, "t") as reader:
        prepare(any_database, ALTER, "INSERT INTO t VALUES (20)", "ALTER TABLE t ALTER b SET STATISTICS 7")
        assert _causes(reader) == ["column_rewritten"]
        assert reader.ids() == [("c", 20)]


def test_an_alteration_after_a_savepoint(any_database: Database) -> None:
    prepare(any_database, *TABLE, SCRIPT)
    with capturing(any_database, "t") as reader:
        prepare(any_database, f"BEGIN; INSERT INTO t VALUES (20); SAVEPOINT s; {ALTER}; RELEASE s; COMMIT")
        assert _causes(reader) == ["column_rewritten"]
        prepare(any_database, f"BEGIN; INSERT INTO t VALUES (21); SAVEPOINT s; {ALTER}; ROLLBACK TO s; COMMIT")
        assert _causes(reader) == []
        assert reader.ids() == [("c", 20), ("c", 21)]


@pytest.mark.parametrize("create", [TABLE, PARTS])
def test_one_after_another(any_database: Database, create: tuple[str, ...]) -> None:
    """Each has the table read again, and what one explains is not explained by the next one."""
    prepare(any_database, *create, SCRIPT)
    with capturing(any_database, "t") as reader:
        for _ in range(2):
            prepare(any_database, ALTER)
            assert "column_rewritten" in _causes(reader)
        prepare(any_database, "ALTER EVENT TRIGGER tidemark_note_rewrite DISABLE", ALTER)
        assert _causes(reader) == []
        binding = reader.source.followed.bindings[0]
        reader.source.found_altered(binding.index)  # As a look finds it.
        assert "column_written" in _causes(reader)


def test_what_keeps_all_values(any_database: Database) -> None:
    """A rewrite of a column that is left out, or without one."""
    prepare(any_database, *TABLE, SCRIPT)
    changes = ["ALTER TABLE t ALTER b TYPE text USING b || 'x'"]
    if any_database.version >= 15:
        prepare(any_database, "CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler")
        changes.append("ALTER TABLE t SET ACCESS METHOD heap2")
    with capturing(any_database, "t", resource={"exclude": ["b"]}) as reader:
        for change in changes:
            prepare(any_database, change)
            assert _causes(reader) == []


FORGED = [
    ("true", PREFIX.decode(), "'t'::regclass::oid || ' 4'"),
    ("true", PREFIX.decode(), "'t'::regclass::oid || ' 999999999'"),
    ("true", PREFIX.decode(), "'4294967295 4'"),
    ("true", PREFIX.decode(), "'0 4'"),
    ("true", PREFIX.decode(), "''"),
    ("true", PREFIX.decode(), "' '"),
    ("true", PREFIX.decode(), "'t'::regclass::oid || ' 4 '"),
    ("true", PREFIX.decode(), "'99999999999999999999 4'"),
    ("true", PREFIX.decode(), "repeat('9', 1000000)"),
    ("true", PREFIX.decode(), "'\\xff00'::bytea"),
    ("true", PREFIX.decode() + "r", "'t'::regclass::oid || ' 4'"),
    ("true", "", "'t'::regclass::oid || ' 4'"),
    ("false", PREFIX.decode(), "'t'::regclass::oid || ' 4'"),
]


def test_what_others_write_has_nothing_read_again(any_database: Database) -> None:
    prepare(any_database, *TABLE)
    with capturing(any_database, "t") as reader:
        for number, forged in enumerate(FORGED):
            prepare(any_database, f"BEGIN; INSERT INTO t VALUES ({number + 20}); {TELL.format(*forged)}; COMMIT")
        assert _causes(reader) == []
        assert reader.ids() == [("c", number + 20) for number in range(len(FORGED))]


def test_a_forged_reason_hides_nothing(any_database: Database) -> None:
    prepare(any_database, *TABLE)
    tell = TELL.format("true", PREFIX.decode(), "'t'::regclass::oid || ' 8'")
    with capturing(any_database, "t") as reader:
        prepare(any_database, f"BEGIN; {tell}; {ALTER}; COMMIT")
        assert _causes(reader) == ["column_written"]
        prepare(any_database, f"BEGIN; {tell.replace(' 8', ' 4')}; {ALTER}; COMMIT", *[tell] * 20)
        assert _causes(reader) == ["column_rewritten"]


def test_partitions_that_lost_rows_are_not_hidden(any_database: Database) -> None:
    """Whoever may truncate a partition may also say that it was only rewritten."""
    prepare(any_database, *PARTS)
    tell = TELL.format("true", PREFIX.decode(), "'t_low'::regclass::oid || ' 8'")
    with capturing(any_database, "t") as reader:
        prepare(any_database, f"BEGIN; TRUNCATE t_low; {tell}; COMMIT")
        assert _causes(reader) == ["rewritten_by_alter"]
        assert reader.restarted == {0}


def test_a_transaction_that_comes_again_is_told_once(database: Database) -> None:
    prepare(database, *TABLE, SCRIPT)
    with capturing(database, "t") as reader:
        prepare(database, f"BEGIN; INSERT INTO t SELECT i FROM generate_series(20, 90000) i; {ALTER}; COMMIT")
        reader.until(lambda: reader.documents, limit=1)
        assert not reader.log.between_transactions
        reader.source.reconnect()
        reader.log.reconnect()
        assert _causes(reader) == ["column_rewritten"]
        assert len(reader.ids()) == len(set(reader.ids())) == 89981


def test_what_a_message_is() -> None:
    def noted(content: bytes, flags: int = 1, prefix: bytes = PREFIX) -> dict[int, Reason]:
        found: dict[int, Reason] = {}
        note_rewrite(b"M%c%b%b\0%b%b" % (flags, bytes(8), prefix, len(content).to_bytes(4, "big"), content), found)
        return found

    assert noted(b"16402 4") == {16402: Reason.COLUMN}
    assert (
        noted(b"16402 12")[16402].text == "a column got another type or values by USING, it has another access method"
    )
    assert noted(b"16402 64")[16402].text == "reason 64"
    assert noted(b"16402 4", flags=0) == noted(b"16402 4", prefix=b"tidemark") == noted(b"016402 4") == noted(b"") == {}
    assert noted(b"16402\n4") == noted(b"16402 4\n") == noted(b"-1 4") == noted("١ 4".encode()) == {}


def test_the_relations_of_a_transaction_that_are_remembered() -> None:
    found: dict[int, Reason] = {}
    for reason in (b"4", b"2"):
        for oid in range(1, MOST + 5):
            content = b"%d %b" % (oid, reason)
            note_rewrite(b"M\1%b%b\0%b%b" % (bytes(8), PREFIX, len(content).to_bytes(4, "big"), content), found)
    assert len(found) == MOST and set(found.values()) == {Reason.COLUMN | Reason.DEFAULT}


def test_the_consequences_are_those_without_the_trigger() -> None:
    assert (
        table_changes.COLUMN_REWRITTEN.consequence is table_changes.COLUMN_WRITTEN.consequence is Consequence.READ_AGAIN
    )
