"""What a statement of PostgreSQL may do to a captured table."""

from __future__ import annotations

from tests.end_to_end.alterations.altered import Altered, altered
from tests.end_to_end.alterations.outcome import Outcome, Outcomes, listed


def retyped(type_: str, value: str, new: str, column: str = "c") -> Altered:
    return altered(f"ALTER {column} TYPE {new}", type_=type_, value=value)


DAY = "DATE '2026-01-01' + i"
MOMENT = "TIMESTAMP '2026-01-01 12:34:56.789' + i * INTERVAL '1 hour'"
LABEL = "(ARRAY['low', 'high'])[1 + i % 2]"
UUID = "('0000000' || i || '-0000-1000-8000-000000000000')::uuid"
DOCUMENT = """('{"a": ' || i || '}')::json"""

COLUMNS = {
    "add": altered("ADD COLUMN d text"),
    "add_default": altered("ADD COLUMN d int DEFAULT 7"),
    "add_not_null": altered("ADD COLUMN d text NOT NULL DEFAULT 'x'"),
    "add_now": altered("ADD COLUMN d timestamptz DEFAULT now()"),
    "add_random": altered("ADD COLUMN d double precision DEFAULT random()"),
    "add_identity": altered("ADD COLUMN d int GENERATED ALWAYS AS IDENTITY"),
    "add_several": altered("ADD COLUMN d int DEFAULT 7, ADD COLUMN e text, DROP COLUMN c"),
    "add_and_retype": altered("ADD COLUMN d int DEFAULT 7, ALTER c TYPE text"),
    "drop": altered("DROP COLUMN c"),
    "drop_and_add": altered("DROP COLUMN c, ADD COLUMN c date"),
    "drop_and_add_filled": altered("DROP COLUMN c, ADD COLUMN c text DEFAULT 'new'"),
    "rename": altered("RENAME COLUMN c TO d"),
    "rename_and_back": altered("RENAME c TO d", "RENAME d TO c"),
    "rename_and_retype": altered("RENAME c TO d", "ALTER d TYPE text"),
    "swap": altered("RENAME c TO x", "RENAME n TO c", "RENAME x TO n", type_="text", value="i::text"),
    "swap_alike": altered("RENAME c TO x", "RENAME n TO c", "RENAME x TO n", value="i + 100"),
    "not_null": altered("ALTER c SET NOT NULL"),
    "not_null_and_back": altered("ALTER c SET NOT NULL", "ALTER c DROP NOT NULL"),
    "default_of_a_column": altered("ALTER c SET DEFAULT 7", "ALTER c DROP DEFAULT"),
    "statistics_and_storage": altered(
        "ALTER c SET STATISTICS 10", "ALTER c SET STORAGE EXTERNAL", type_="text", value="i::text"
    ),
}

TYPES = {
    "int_to_bigint": retyped("int", "i", "bigint"),
    "bigint_to_int": retyped("bigint", "i", "int"),
    "int_to_smallint": retyped("int", "i", "smallint"),
    "int_to_text": retyped("int", "i", "text"),
    "int_to_numeric": retyped("int", "i", "numeric(10, 2)"),
    "int_to_double": retyped("int", "i", "double precision"),
    "int_to_bool": retyped("int", "i", "bool USING c > 4"),
    "int_to_other_ints": retyped("int", "i", "int USING c + 100"),
    "text_to_int": retyped("text", "i::text", "int USING c::int"),
    "text_to_date": retyped("text", "'2026-01-0' || i", "date USING c::date"),
    "text_to_bytea": retyped("text", "i::text", "bytea USING c::bytea"),
    "text_to_array": retyped("text", "i::text", "text[] USING ARRAY[c]"),
    "text_to_varchar": retyped("text", "i::text", "varchar(5)"),
    "text_to_uuid": retyped("text", f"{UUID}::text", "uuid USING c::uuid"),
    "text_to_json": retyped("text", f"{DOCUMENT}::text", "json USING c::json"),
    "varchar_to_text": retyped("varchar(9)", "i::text", "text"),
    "wider_varchar": retyped("varchar(9)", "i::text", "varchar(90)"),
    "narrower_varchar": retyped("varchar(9)", "i::text", "varchar(3)"),
    "varchar_to_char": retyped("varchar(9)", "i::text", "char(9)"),
    "another_collation": retyped("text", "i::text", 'text COLLATE "C"'),
    "wider_numeric": retyped("numeric(10, 2)", "i", "numeric(20, 4)"),
    "narrower_numeric": retyped("numeric(20, 4)", "i", "numeric(10, 2)"),
    "any_numeric": retyped("numeric(10, 2)", "i", "numeric"),
    "numeric_to_int": retyped("numeric(10, 2)", "i", "int"),
    "numeric_to_double": retyped("numeric(10, 2)", "i", "double precision"),
    "numeric_to_text": retyped("numeric(10, 2)", "i", "text"),
    "real_to_double": retyped("real", "i / 10.0", "double precision"),
    "double_to_real": retyped("double precision", "i / 10.0", "real"),
    "real_to_numeric": retyped("real", "i", "numeric(10, 2)"),
    "bool_to_int": retyped("bool", "i > 4", "int USING c::int"),
    "date_to_timestamp": retyped("date", DAY, "timestamp"),
    "date_to_text": retyped("date", DAY, "text"),
    "timestamp_to_date": retyped("timestamp", MOMENT, "date"),
    "timestamp_to_timestamptz": retyped("timestamp", MOMENT, "timestamptz"),
    "timestamptz_to_timestamp": retyped("timestamptz", MOMENT, "timestamp"),
    "timestamp_to_text": retyped("timestamp", MOMENT, "text"),
    "coarser_timestamp": retyped("timestamp", MOMENT, "timestamp(0)"),
    "enum_to_text": retyped("mood", f"({LABEL})::mood", "text"),
    "text_to_enum": retyped("text", LABEL, "mood USING c::mood"),
    "json_to_jsonb": retyped("json", DOCUMENT, "jsonb"),
    "json_to_text": retyped("json", DOCUMENT, "text"),
    "uuid_to_text": retyped("uuid", UUID, "text"),
    "bytea_to_text": retyped("bytea", "i::text::bytea", "text USING encode(c, 'escape')"),
    "array_of_bigint": retyped("int[]", "ARRAY[i]", "bigint[]"),
    "array_to_text": retyped("int[]", "ARRAY[i]", "text"),
    "domain_of_int": retyped("int", "i", "small"),
}

KEYS = {
    "key_to_bigint": retyped("int", "i", "bigint", "id"),
    "key_to_text": retyped("int", "i", "text", "id"),
    "key_to_numeric": retyped("int", "i", "numeric(12, 2)", "id"),
    "key_to_other_keys": altered("ALTER id TYPE int USING id + 20"),
    "rename_the_key": altered("RENAME id TO d", "ADD COLUMN id int", key=("d",)),
    "swap_with_the_key": altered(
        "RENAME id TO x",
        "RENAME c TO id",
        "RENAME x TO c",
        value="9 - i",
        key=("c",),
    ),
    "another_key": altered("DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (c)", value="i + 100", key=("c",)),
    "longer_key": altered("DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id, c)", value="i + 100", key=("id", "c")),
    "shorter_key": altered(
        "DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id, c)",
        "DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id)",
        value="i + 100",
    ),
    "key_made_again": altered("DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id)"),
    "added_key": altered(
        "DROP CONSTRAINT {t}_pkey, ADD COLUMN k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY", key=("k",)
    ),
}


def made_again(*statements: str) -> Altered:
    return Altered("int", "i", statements)


TABLES = {
    "created_again": made_again(
        "DROP TABLE {t}",
        "CREATE TABLE {t} (id text PRIMARY KEY, c date, n int)",
        "INSERT INTO {t} VALUES ('3', '2026-02-03', 3), ('5', NULL, 5)",
    ),
    "created_again_alike": made_again(
        "DROP TABLE {t}",
        "CREATE TABLE {t} (id int PRIMARY KEY, c int, n int)",
        "INSERT INTO {t} VALUES (3, 30, 3)",
    ),
    "copied": made_again(
        "CREATE TABLE {t}_new (LIKE {t} INCLUDING ALL, d int DEFAULT 7)",
        "INSERT INTO {t}_new SELECT * FROM {t}",
        "ALTER TABLE {t} RENAME TO {t}_old",
        "ALTER TABLE {t}_new RENAME TO {t}",
    ),
    "rename_away_and_back": made_again("ALTER TABLE {t} RENAME TO {t}_away", "ALTER TABLE {t}_away RENAME TO {t}"),
    "truncated": made_again("TRUNCATE {t}", "INSERT INTO {t} VALUES (3, 1, 1), (9, 2, 2)"),
    "truncated_and_altered": made_again(
        "TRUNCATE {t}", "ALTER TABLE {t} ALTER c TYPE text", "INSERT INTO {t} VALUES (3, 'c', 1), (9, 'd', 2)"
    ),
    "updated_and_altered": made_again(
        "UPDATE {t} SET c = c + 1", "ALTER TABLE {t} ALTER c TYPE bigint", "UPDATE {t} SET c = c + 1 WHERE id < 3"
    ),
    "rewritten": made_again("VACUUM FULL {t}", "CLUSTER {t} USING {t}_pkey"),
    "full_identity": altered("REPLICA IDENTITY FULL"),
    "constraints": altered("ADD CHECK (c < 1000)", "ADD UNIQUE (c)", "SET (fillfactor = 70)"),
    "indexed": made_again("CREATE INDEX ON {t} (c)", "ALTER TABLE {t} CLUSTER ON {t}_pkey"),
    "row_security": altered("ENABLE ROW LEVEL SECURITY", "DISABLE ROW LEVEL SECURITY"),
}

SETUP = ("CREATE TYPE mood AS ENUM ('low', 'high')", "CREATE DOMAIN small AS int CHECK (VALUE < 1000)")
"""What the tables' types need."""

CASES = {**COLUMNS, **TYPES, **KEYS, **TABLES}

OUTCOMES: Outcomes = {
    Outcome.FOLLOWED: listed(
        """
        add add_default add_not_null add_now add_several drop drop_and_add drop_and_add_filled rename
        rename_and_back swap swap_alike not_null not_null_and_back default_of_a_column statistics_and_storage
        varchar_to_text wider_varchar another_collation any_numeric shorter_key key_made_again
        rename_away_and_back truncated rewritten full_identity constraints indexed row_security
        """
    ),
    Outcome.READ: listed(
        """
        add_random add_identity add_and_retype rename_and_retype int_to_bigint bigint_to_int int_to_smallint
        int_to_text int_to_other_ints text_to_varchar text_to_uuid text_to_json narrower_varchar varchar_to_char
        wider_numeric numeric_to_text real_to_double double_to_real date_to_timestamp date_to_text
        coarser_timestamp enum_to_text text_to_enum json_to_jsonb json_to_text uuid_to_text array_of_bigint
        domain_of_int truncated_and_altered updated_and_altered
        """
    ),
    Outcome.LAID_OVER: listed(
        """
        key_to_bigint key_to_other_keys created_again_alike copied
        """
    ),
    Outcome.REPLACED: listed(
        """
        int_to_numeric int_to_double int_to_bool text_to_int text_to_date text_to_bytea text_to_array
        narrower_numeric numeric_to_int numeric_to_double real_to_numeric bool_to_int timestamp_to_date
        timestamp_to_timestamptz timestamptz_to_timestamp timestamp_to_text bytea_to_text array_to_text
        key_to_text key_to_numeric rename_the_key swap_with_the_key another_key longer_key added_key
        created_again created_again_alike shorter_key
        """
    ),
}
