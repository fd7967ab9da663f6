"""What each ALTER TABLE comes to in the lake, row by row: old rows with new columns, and later rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.captures.source_tables import prepare
from tests.end_to_end.capture import Capture
from tests.servers.deadline import wait_until
from tests.servers.postgres import Database

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Altered:
    """A table ``(id int PRIMARY KEY, c …, n int)`` of eight rows that is altered.

    Attributes:
        type: Of the column ``c``.
        value: Of it in row ``i``, in SQL.
        alter: The statements.
        key: Names of the key's columns afterwards.
    """

    type: str
    value: str
    alter: tuple[str, ...]
    key: tuple[str, ...] = ("id",)

    def create(self, name: str) -> list[str]:
        return [
            f"CREATE TABLE {name} (id int PRIMARY KEY, c {self.type}, n int)",
            f"INSERT INTO {name} SELECT i, {self.value}, i FROM generate_series(1, 8) i",
        ]

    def change(self, name: str) -> list[str]:
        """The statements, and changes of rows after them."""
        return [
            *(statement.format(t=name) for statement in self.alter),
            f"UPDATE {name} SET n = NULL WHERE id::text = '3'",
            f"DELETE FROM {name} WHERE id::text = '4'",
        ]


def retyped(type_: str, value: str, new: str, column: str = "c") -> Altered:
    return Altered(type_, value, (f"ALTER TABLE {{t}} ALTER {column} TYPE {new}",))


DAY = "DATE '2026-01-01' + i"

CASES = {
    "add": Altered("int", "i", ("ALTER TABLE {t} ADD COLUMN d text",)),
    "add_default": Altered("int", "i", ("ALTER TABLE {t} ADD COLUMN d int DEFAULT 7",)),
    "drop": Altered("int", "i", ("ALTER TABLE {t} DROP COLUMN c",)),
    "drop_and_add": Altered("int", "i", ("ALTER TABLE {t} DROP COLUMN c, ADD COLUMN c date",)),
    "rename": Altered("int", "i", ("ALTER TABLE {t} RENAME COLUMN c TO d",)),
    "swap": Altered(
        "text",
        "i::text",
        ("ALTER TABLE {t} RENAME c TO x", "ALTER TABLE {t} RENAME n TO c", "ALTER TABLE {t} RENAME x TO n"),
    ),
    "int_to_bigint": retyped("int", "i", "bigint"),
    "int_to_text": retyped("int", "i", "text"),
    "int_to_numeric": retyped("int", "i", "numeric(10, 2)"),
    "int_to_double": retyped("int", "i", "double precision"),
    "int_to_bool": retyped("int", "i", "bool USING c > 4"),
    "text_to_int": retyped("text", "i::text", "int USING c::int"),
    "text_to_date": retyped("text", "'2026-01-0' || i", "date USING c::date"),
    "text_to_bytea": retyped("text", "i::text", "bytea USING c::bytea"),
    "text_to_array": retyped("text", "i::text", "text[] USING ARRAY[c]"),
    "wider_numeric": retyped("numeric(10, 2)", "i", "numeric(20, 4)"),
    "narrower_numeric": retyped("numeric(20, 4)", "i", "numeric(10, 2)"),
    "numeric_to_int": retyped("numeric(10, 2)", "i", "int"),
    "numeric_to_double": retyped("numeric(10, 2)", "i", "double precision"),
    "real_to_double": retyped("real", "i / 10.0", "double precision"),
    "real_to_numeric": retyped("real", "i", "numeric(10, 2)"),
    "date_to_timestamp": retyped("date", DAY, "timestamp"),
    "date_to_text": retyped("date", DAY, "text"),
    "timestamp_to_date": retyped("timestamp", DAY, "date"),
    "timestamp_to_timestamptz": retyped("timestamp", DAY, "timestamptz"),
    "key_to_bigint": retyped("int", "i", "bigint", "id"),
    "key_to_text": retyped("int", "i", "text", "id"),
    "another_key": Altered(
        "int", "i + 100", ("ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (c)",), key=("c",)
    ),
    "longer_key": Altered(
        "int", "i + 100", ("ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id, c)",), key=("id", "c")
    ),
    "created_again": Altered(
        "int",
        "i",
        (
            "DROP TABLE {t}",
            "CREATE TABLE {t} (id text PRIMARY KEY, c date, n int)",
            "INSERT INTO {t} VALUES ('3', '2026-02-03', 3), ('5', NULL, 5)",
        ),
    ),
}
KEYS = {f"public.{name}": list(case.key) for name, case in CASES.items()}


def filled(database: Database, folder: Path) -> Capture:
    for name, case in CASES.items():
        prepare(database, *case.create(name))
    return Capture(folder, database)


def alter(database: Database) -> None:
    for name, case in CASES.items():
        prepare(database, *case.change(name))


def materialize(capture: Capture, *options: str) -> None:
    ended = capture.run("materialize", "--available-now", *options)
    assert ended.status == 0, ended.said


def test_while_the_capture_is_stopped(database: Database, tmp_path: Path) -> None:
    capture = filled(database, tmp_path)
    capture.catch_up()
    materialize(capture)
    assert capture.lake_differences({table: ["id"] for table in KEYS}) == []
    alter(database)
    capture.catch_up()
    materialize(capture)
    assert capture.lake_differences(KEYS) == []
    rebuilt = ("public.another_key", "public.text_to_int", "public.int_to_text", "public.created_again")
    materialize(capture, *(part for table in rebuilt for part in ("--rebuild", table)))
    assert capture.lake_differences(KEYS) == []


def test_while_the_capture_runs(database: Database, tmp_path: Path) -> None:
    capture = filled(database, tmp_path)
    with capture.start() as running:
        wait_until(lambda: capture.snapshot_rows() == 8 * len(CASES), 120, "all rows are captured")
        materialize(capture)
        alter(database)
        capture.wait_for_events(running)
    capture.catch_up()
    materialize(capture)
    assert capture.lake_differences(KEYS) == []
