"""What an ALTER TABLE of PostgreSQL may do to a captured table."""

from __future__ import annotations

from tests.end_to_end.alterations.altered import Altered


def retyped(type_: str, value: str, new: str, column: str = "c") -> Altered:
    return Altered(type_, value, (f"ALTER TABLE {{t}} ALTER {column} TYPE {new}",))


DAY = "DATE '2026-01-01' + i"

CASES = {
    "add": Altered("int", "i", ("ALTER TABLE {t} ADD COLUMN d text",), followed=True),
    "add_default": Altered("int", "i", ("ALTER TABLE {t} ADD COLUMN d int DEFAULT 7",), followed=True),
    "drop": Altered("int", "i", ("ALTER TABLE {t} DROP COLUMN c",), followed=True),
    "drop_and_add": Altered("int", "i", ("ALTER TABLE {t} DROP COLUMN c, ADD COLUMN c date",), followed=True),
    "rename": Altered("int", "i", ("ALTER TABLE {t} RENAME COLUMN c TO d",), followed=True),
    "swap": Altered(
        "text",
        "i::text",
        ("ALTER TABLE {t} RENAME c TO x", "ALTER TABLE {t} RENAME n TO c", "ALTER TABLE {t} RENAME x TO n"),
        followed=True,
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
