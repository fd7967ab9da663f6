"""What a statement of MySQL or MariaDB may do to a captured table."""

from __future__ import annotations

from tests.end_to_end.alterations.altered import Altered, altered
from tests.end_to_end.alterations.outcome import Outcome, Outcomes, listed


def retyped(type_: str, value: str, new: str) -> Altered:
    return altered(f"MODIFY c {new}", type_=type_, value=value)


def loosely(case: Altered) -> Altered:
    """In a session that changes values that do not fit."""
    return Altered(case.type, case.value, ("SET sql_mode = ''", *case.alter), case.key)


DAY = "DATE '2026-01-01' + INTERVAL i DAY"
MOMENT = "TIMESTAMP '2026-01-01 12:34:56.789012' + INTERVAL i HOUR"
LABEL = "ELT(1 + i % 3, 'x', 'y', 'z')"
LABELS = "ELT(1 + i % 3, 'x', 'x,z', '')"
OBJECT = """CONCAT('{"b": ', i, ', "a": [1.50, null]}')"""
ACCENTED = "CONCAT('é', i)"
LARGE = "18446744073709551615 - i"

COLUMNS = {
    "added": altered("ADD COLUMN d VARCHAR(10)"),
    "add_default": altered("ADD COLUMN d INT DEFAULT 7"),
    "add_default_first": altered("ADD COLUMN d INT DEFAULT 7 FIRST"),
    "add_after": altered("ADD COLUMN d VARCHAR(10) AFTER id"),
    "add_not_null": altered("ADD COLUMN d INT NOT NULL, ADD e VARCHAR(9) NOT NULL"),
    "add_moment": altered("ADD COLUMN d TIMESTAMP DEFAULT current_timestamp"),
    "add_several": altered("ADD COLUMN (d INT, e VARCHAR(9) DEFAULT 'e'), DROP COLUMN c, MODIFY n BIGINT FIRST"),
    "add_again": altered("ADD COLUMN d INT DEFAULT 7", "DROP COLUMN d", "ADD COLUMN d VARCHAR(9) DEFAULT 'again'"),
    "add_virtual": altered("ADD COLUMN d INT AS (c * 2) VIRTUAL"),
    "add_stored": altered("ADD COLUMN d VARCHAR(20) AS (CONCAT('c', c)) STORED"),
    "another_expression": altered("ADD COLUMN d INT AS (c + 1) STORED", "MODIFY COLUMN d INT AS (c + 2) STORED"),
    "generated_no_more": altered("ADD COLUMN d INT AS (c + 1) STORED", "MODIFY COLUMN d INT"),
    "dropped": altered("DROP COLUMN c"),
    "drop_and_add": altered("DROP COLUMN c, ADD COLUMN c DATE"),
    "drop_and_add_filled": altered("DROP COLUMN c, ADD COLUMN c VARCHAR(9) DEFAULT 'new'"),
    "drop_and_add_the_same": altered("DROP COLUMN c, ADD COLUMN c INT"),
    "drop_then_add": altered("DROP COLUMN c", "ADD COLUMN c INT"),
    "renamed": altered("RENAME COLUMN c TO d"),
    "rename_by_change": altered("CHANGE c d INT"),
    "rename_and_retype": altered("CHANGE c d VARCHAR(20)"),
    "rename_and_back": altered("RENAME COLUMN c TO d", "RENAME COLUMN d TO c"),
    "swap": altered("RENAME COLUMN c TO n, RENAME COLUMN n TO c", value="i + 100"),
    "swap_types": altered("RENAME COLUMN c TO n, RENAME COLUMN n TO c", type_="VARCHAR(9)", value="CONCAT('c', i)"),
    "swap_by_change": altered("CHANGE c n VARCHAR(9), CHANGE n c INT", type_="VARCHAR(9)", value="CONCAT('c', i)"),
    "swap_in_steps": altered(
        "RENAME COLUMN c TO x", "RENAME COLUMN n TO c", "RENAME COLUMN x TO n", type_="VARCHAR(9)", value="i"
    ),
    "swap_with_the_key": altered(
        "RENAME COLUMN c TO id, RENAME COLUMN id TO c", type_="INT", value="9 - i", key=("c",)
    ),
    "rename_the_key": altered("RENAME COLUMN id TO d, ADD COLUMN id INT", key=("d",)),
    "reorder": altered("MODIFY c INT AFTER n"),
    "reorder_first": altered("MODIFY c INT FIRST, MODIFY n INT AFTER c"),
    "reorder_and_retype": altered("MODIFY c VARCHAR(20) FIRST"),
    "default_of_a_column": altered("ALTER c SET DEFAULT 7", "ALTER c DROP DEFAULT"),
    "comment": altered("MODIFY c INT COMMENT 'why'", "COMMENT 'a table'"),
    "not_null": altered("MODIFY c INT NOT NULL"),
    "not_null_and_back": altered("MODIFY c INT NOT NULL", "MODIFY c INT NULL"),
    "not_null_loosely": loosely(altered("MODIFY c INT NOT NULL", value="NULLIF(i % 3, 0)")),
    "not_null_and_back_loosely": loosely(
        altered("MODIFY c INT NOT NULL", "MODIFY c INT NULL", value="NULLIF(i % 3, 0)")
    ),
    "charset_of_the_table": altered(
        "CONVERT TO CHARACTER SET utf8mb4", type_="VARCHAR(9) CHARACTER SET latin1", value=ACCENTED
    ),
    "several_at_once": altered(
        "DROP COLUMN n, CHANGE c n VARCHAR(20) FIRST, ADD COLUMN c INT DEFAULT 3, ADD INDEX (c), COMMENT 'x'"
    ),
}

TYPES = {
    "int_to_bigint": retyped("int", "i", "bigint"),
    "bigint_to_int": retyped("bigint", "i", "int"),
    "int_to_smallint_loosely": loosely(retyped("int", "i * 10000", "smallint")),
    "int_to_unsigned": retyped("int", "i", "int unsigned"),
    "unsigned_int_to_bigint": retyped("int unsigned", "4294967295 - i", "bigint unsigned"),
    "unsigned_bigint_to_bigint": retyped("bigint unsigned", "i", "bigint"),
    "unsigned_bigint_to_decimal": retyped("bigint unsigned", LARGE, "decimal(30, 2)"),
    "bigint_to_unsigned": retyped("bigint", "i", "bigint unsigned"),
    "int_to_varchar": retyped("int", "i", "varchar(20)"),
    "unsigned_bigint_to_varchar": retyped("bigint unsigned", LARGE, "varchar(30)"),
    "varchar_to_int": retyped("varchar(20)", "CONCAT('0', i)", "int"),
    "wider_varchar": retyped("varchar(20)", "i", "varchar(300)"),
    "narrower_varchar": retyped("varchar(20)", "i", "varchar(5)"),
    "narrower_varchar_loosely": loosely(retyped("varchar(20)", "CONCAT('long text ', i)", "varchar(5)")),
    "varchar_to_text": retyped("varchar(20)", "i", "text"),
    "varchar_to_char": retyped("varchar(20)", "CONCAT(i, '  ')", "char(9)"),
    "varchar_to_varbinary": retyped("varchar(20)", ACCENTED, "varbinary(40)"),
    "varchar_to_binary": retyped("varchar(20)", "i", "binary(4)"),
    "varchar_to_date": retyped("varchar(20)", "CONCAT('2026-01-0', i)", "date"),
    "varchar_to_time": retyped("varchar(20)", "CONCAT('2', i, ':00:00')", "time"),
    "finer_time": retyped("time", "CONCAT('-2', i, ':00:00')", "time(3)"),
    "time_to_varchar": retyped("time(2)", "CONCAT('2', i, ':00:00.12')", "varchar(30)"),
    "varchar_to_decimal": retyped("varchar(20)", "CONCAT(i, '.5')", "decimal(10, 2)"),
    "int_to_decimal": retyped("int", "i", "decimal(10, 2)"),
    "int_to_double": retyped("int", "i", "double"),
    "int_to_float": retyped("int", "i", "float"),
    "int_to_date": retyped("int", "20260100 + i", "date"),
    "int_to_bit": retyped("int", "i % 2", "bit(1)"),
    "int_to_json": retyped("int", "i", "json"),
    "wider_decimal": retyped("decimal(10, 2)", "i + 0.25", "decimal(20, 4)"),
    "more_digits": retyped("decimal(10, 2)", "i + 0.25", "decimal(20, 2)"),
    "narrower_decimal": retyped("decimal(20, 4)", "i + 0.25", "decimal(10, 2)"),
    "rounded_decimal": retyped("decimal(20, 4)", "i + 0.12", "decimal(10, 1)"),
    "too_large_decimal": retyped("decimal(10, 2)", "i", "decimal(50, 2)"),
    "decimal_to_int": retyped("decimal(10, 2)", "i", "int"),
    "decimal_to_double": retyped("decimal(10, 2)", "i + 0.25", "double"),
    "decimal_to_varchar": retyped("decimal(10, 2)", "i", "varchar(20)"),
    "float_to_double": retyped("float", "i / 10", "double"),
    "double_to_float": retyped("double", "i / 10", "float"),
    "double_to_decimal": retyped("double", "i / 8", "decimal(10, 3)"),
    "date_to_datetime": retyped("date", DAY, "datetime"),
    "date_to_varchar": retyped("date", DAY, "varchar(20)"),
    "date_to_int": retyped("date", DAY, "int"),
    "datetime_to_date": retyped("datetime", DAY, "date"),
    "datetime_to_timestamp": retyped("datetime", MOMENT, "timestamp NULL"),
    "timestamp_to_datetime": retyped("timestamp NULL", MOMENT, "datetime"),
    "timestamp_to_varchar": retyped("timestamp NULL", MOMENT, "varchar(30)"),
    "datetime_to_varchar": retyped("datetime(3)", MOMENT, "varchar(30)"),
    "finer_datetime": retyped("datetime", MOMENT, "datetime(6)"),
    "coarser_datetime": retyped("datetime(6)", MOMENT, "datetime"),
    "finer_timestamp": retyped("timestamp NULL", MOMENT, "timestamp(6) NULL"),
    "text_to_json": retyped("text", OBJECT, "json"),
    "json_to_text": retyped("json", OBJECT, "text"),
    "text_to_longtext": retyped("text", OBJECT, "longtext"),
    "text_to_blob": retyped("text", ACCENTED, "blob"),
    "blob_to_text": retyped("blob", ACCENTED, "text"),
    "blob_to_longblob": retyped("blob", ACCENTED, "longblob"),
    "charset": retyped("varchar(9) CHARACTER SET latin1", ACCENTED, "varchar(9) CHARACTER SET utf8mb4"),
    "smaller_charset": retyped("varchar(9) CHARACTER SET utf8mb4", ACCENTED, "varchar(9) CHARACTER SET latin1"),
    "collation": retyped("varchar(9)", ACCENTED, "varchar(9) COLLATE utf8mb4_bin"),
    "more_labels": retyped("enum('x', 'y', 'z')", LABEL, "enum('x', 'y', 'z', 'more')"),
    "labels_in_between": retyped("enum('x', 'y', 'z')", LABEL, "enum('a', 'x', 'b', 'y', 'z')"),
    "labels_in_another_order": retyped("enum('x', 'y', 'z')", LABEL, "enum('z', 'y', 'x')"),
    "fewer_labels_loosely": loosely(retyped("enum('x', 'y', 'z')", LABEL, "enum('x', 'z')")),
    "enum_to_varchar": retyped("enum('x', 'y', 'z')", LABEL, "varchar(9)"),
    "enum_to_int": retyped("enum('x', 'y', 'z')", LABEL, "int"),
    "enum_to_set": retyped("enum('x', 'y', 'z')", LABEL, "set('x', 'y', 'z')"),
    "varchar_to_enum": retyped("varchar(9)", LABEL, "enum('x', 'y', 'z')"),
    "more_labels_of_a_set": retyped("set('x', 'y', 'z')", LABELS, "set('x', 'y', 'z', 'more')"),
    "set_in_another_order": retyped("set('x', 'y', 'z')", LABELS, "set('z', 'y', 'x')"),
    "set_to_varchar": retyped("set('x', 'y', 'z')", LABELS, "varchar(9)"),
    "bit_to_more_bits": retyped("bit(1)", "i % 2", "bit(8)"),
    "more_bits": retyped("bit(5)", "i", "bit(40)"),
    "bit_to_int": retyped("bit(8)", "i", "int"),
    "year_to_int": retyped("year", "2000 + i", "int"),
    "int_to_year": retyped("int", "2000 + i", "year"),
    "tinyint1_to_int": retyped("tinyint(1)", "i % 2", "int"),
    "int_to_tinyint1": retyped("int", "i % 2", "tinyint(1)"),
    "binary_to_varbinary": retyped("binary(4)", "i", "varbinary(9)"),
}

KEYS = {
    "key_to_bigint": altered("MODIFY id BIGINT"),
    "key_to_varchar": altered("MODIFY id VARCHAR(20)"),
    "key_to_decimal": altered("MODIFY id DECIMAL(12, 2)"),
    "key_to_unsigned": altered("MODIFY id INT UNSIGNED"),
    "key_to_unsigned_bigint": altered("MODIFY id BIGINT UNSIGNED"),
    "auto_increment": Altered(
        "int",
        "i",
        (
            "ALTER TABLE {t} MODIFY id INT AUTO_INCREMENT",
            "ALTER TABLE {t} AUTO_INCREMENT = 100",
            "INSERT INTO {t} (c, n) VALUES (1, 2), (3, 4)",
        ),
    ),
    "another_key": altered("DROP PRIMARY KEY, ADD PRIMARY KEY (c)", value="i + 100", key=("c",)),
    "another_key_later": altered("DROP PRIMARY KEY", "ADD PRIMARY KEY (c)", value="i + 100", key=("c",)),
    "longer_key": altered("DROP PRIMARY KEY, ADD PRIMARY KEY (id, c)", value="i + 100", key=("id", "c")),
    "shorter_key": altered(
        "DROP PRIMARY KEY, ADD PRIMARY KEY (id, c)", "DROP PRIMARY KEY, ADD PRIMARY KEY (id)", value="i + 100"
    ),
    "added_key": altered(
        "DROP PRIMARY KEY, ADD COLUMN k INT NOT NULL AUTO_INCREMENT PRIMARY KEY", value="i + 100", key=("k",)
    ),
    "unique_instead": altered("ADD UNIQUE (id)", "DROP PRIMARY KEY"),
    "indexed": altered("ADD INDEX (c), ADD UNIQUE (n)", "DROP INDEX c"),
}

REPLACED = (
    "CREATE TABLE {t} (id VARCHAR(20) PRIMARY KEY, c DATE, n INT)",
    "INSERT INTO {t} VALUES ('3', '2026-02-03', 3), ('5', NULL, 5)",
)

TABLES = {
    "rename_away_and_back": Altered("int", "i", ("RENAME TABLE {t} TO {t}_away", "RENAME TABLE {t}_away TO {t}")),
    "alter_away_and_back": Altered(
        "int",
        "i",
        (
            "ALTER TABLE {t} RENAME TO {t}_away",
            "ALTER TABLE {t}_away MODIFY c VARCHAR(20)",
            "UPDATE {t}_away SET c = 'away' WHERE id = 2",
            "ALTER TABLE {t}_away RENAME TO {t}",
        ),
    ),
    "created_again": Altered("int", "i", ("DROP TABLE {t}", *REPLACED)),
    "created_again_alike": Altered(
        "int",
        "i",
        ("DROP TABLE {t}", "CREATE TABLE {t} (id INT PRIMARY KEY, c INT, n INT)", "INSERT INTO {t} VALUES (3, 30, 3)"),
    ),
    "copied": Altered(
        "int",
        "i",
        (
            "CREATE TABLE {t}_new LIKE {t}",
            "ALTER TABLE {t}_new MODIFY c VARCHAR(20) FIRST, ADD COLUMN d INT DEFAULT 7",
            "INSERT INTO {t}_new (id, c, n) SELECT id, c, n FROM {t}",
            "RENAME TABLE {t} TO {t}_old, {t}_new TO {t}",
        ),
    ),
    "truncated": Altered("int", "i", ("TRUNCATE TABLE {t}", "INSERT INTO {t} VALUES (3, 1, 1), (9, 2, 2)")),
    "truncated_and_altered": Altered(
        "int",
        "i",
        (
            "TRUNCATE TABLE {t}",
            "ALTER TABLE {t} MODIFY c VARCHAR(20)",
            "INSERT INTO {t} VALUES (3, 'c', 1), (9, 'd', 2)",
        ),
    ),
    "instant": altered("ADD COLUMN d INT DEFAULT 7, ALGORITHM=INSTANT"),
    "inplace": altered("ADD INDEX (c), ALGORITHM=INPLACE, LOCK=NONE", "ADD COLUMN d INT NOT NULL, ALGORITHM=INPLACE"),
    "inplace_varchar": altered("MODIFY c VARCHAR(40), ALGORITHM=INPLACE", type_="VARCHAR(20)"),
    "copy": altered("MODIFY c VARCHAR(20), ADD COLUMN d INT DEFAULT 7, ALGORITHM=COPY, LOCK=SHARED"),
    "rebuilt": altered("FORCE", "ENGINE=InnoDB"),
    "partitioned": altered("PARTITION BY HASH (id) PARTITIONS 3"),
    "partitioned_and_back": altered("PARTITION BY HASH (id) PARTITIONS 3", "REMOVE PARTITIONING"),
    "partition_dropped": altered(
        "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (3), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "DROP PARTITION p0",
    ),
}

COMMON = {**COLUMNS, **TYPES, **KEYS, **TABLES}

MARIADB = COMMON | {
    "varchar_to_uuid": retyped("varchar(40)", "CONCAT('0000000', i, '-0000-1000-8000-000000000000')", "uuid"),
    "uuid_to_varchar": retyped("uuid", "CONCAT('0000000', i, '-0000-1000-8000-000000000000')", "varchar(40)"),
    "varchar_to_inet6": retyped("varchar(40)", "CONCAT('::', i)", "inet6"),
    "add_if_not_exists": altered("ADD COLUMN IF NOT EXISTS c DATE, ADD COLUMN IF NOT EXISTS d INT DEFAULT 7"),
    "drop_instantly": altered("DROP COLUMN c, ALGORITHM=INSTANT"),
    "ignored": Altered("int", "i % 5", ("ALTER IGNORE TABLE {t} ADD UNIQUE (c)",)),
    "created_or_replaced": Altered(
        "int", "i", (f"CREATE OR REPLACE {REPLACED[0].removeprefix('CREATE ')}", REPLACED[1])
    ),
}

MYSQL = COMMON | {
    "default_expression": altered("ADD COLUMN d VARCHAR(20) DEFAULT (CONCAT('c', c))"),
    "instant_in_the_middle": altered("ADD COLUMN d INT DEFAULT 7 AFTER id, ALGORITHM=INSTANT"),
    "json_to_varchar": retyped("json", OBJECT, "varchar(200)"),
}

OUTCOMES: Outcomes = {
    Outcome.FOLLOWED: listed(
        """
        added add_default add_default_first add_after add_not_null add_several add_again dropped drop_and_add
        drop_and_add_filled drop_and_add_the_same drop_then_add renamed rename_by_change rename_and_back swap
        swap_types swap_by_change swap_in_steps reorder reorder_first default_of_a_column comment not_null
        charset_of_the_table int_to_bigint bigint_to_int int_to_unsigned unsigned_int_to_bigint
        bigint_to_unsigned wider_varchar varchar_to_text more_digits too_large_decimal text_to_longtext
        blob_to_longblob charset collation more_labels labels_in_between labels_in_another_order not_null_and_back
        more_labels_of_a_set more_bits tinyint1_to_int int_to_tinyint1 unique_instead indexed
        truncated instant inplace inplace_varchar rebuilt partitioned partitioned_and_back drop_instantly
        instant_in_the_middle
        """
    ),
    Outcome.READ: listed(
        """
        add_moment add_virtual add_stored another_expression generated_no_more rename_and_retype swap_in_steps
        reorder_and_retype not_null_and_back not_null_loosely not_null_and_back_loosely several_at_once
        int_to_smallint_loosely unsigned_bigint_to_decimal int_to_varchar unsigned_bigint_to_varchar
        narrower_varchar narrower_varchar_loosely varchar_to_char varchar_to_time finer_time time_to_varchar
        int_to_json wider_decimal decimal_to_varchar float_to_double double_to_float date_to_datetime
        date_to_varchar finer_datetime coarser_datetime finer_timestamp text_to_json json_to_text
        smaller_charset fewer_labels_loosely enum_to_varchar enum_to_set varchar_to_enum set_in_another_order
        set_to_varchar bit_to_int year_to_int int_to_year binary_to_varbinary truncated_and_altered copy
        varchar_to_uuid uuid_to_varchar varchar_to_inet6 add_if_not_exists default_expression json_to_varchar
        """
    ),
    Outcome.LAID_OVER: listed(
        """
        add_again not_null_and_back not_null_and_back_loosely key_to_bigint key_to_unsigned auto_increment shorter_key
        unique_instead rename_away_and_back alter_away_and_back created_again_alike copied partition_dropped
        ignored
        """
    ),
    Outcome.REPLACED: listed(
        """
        swap_with_the_key rename_the_key unsigned_bigint_to_bigint varchar_to_int varchar_to_varbinary
        varchar_to_binary varchar_to_date varchar_to_decimal int_to_decimal int_to_double int_to_float
        int_to_date int_to_bit narrower_decimal rounded_decimal decimal_to_int decimal_to_double
        double_to_decimal date_to_int datetime_to_date datetime_to_timestamp timestamp_to_datetime
        timestamp_to_varchar datetime_to_varchar text_to_blob blob_to_text enum_to_int bit_to_more_bits
        key_to_varchar key_to_decimal key_to_unsigned_bigint another_key another_key_later longer_key added_key
        created_again created_or_replaced shorter_key
        """
    ),
}
