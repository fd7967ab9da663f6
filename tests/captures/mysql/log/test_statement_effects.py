"""Tables that are altered, renamed, emptied and made again while their log is read."""

from __future__ import annotations

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run, table_chunks
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.mariadb import Database

METADATA = ["FULL", "NO_LOG"]


@pytest.mark.parametrize("metadata", METADATA)
def test_columns_come_go_and_change(binlog_database: Database, metadata: str) -> None:
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"):
        run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT, e ENUM('x','y'))")
        with captured_log(binlog_database, "t") as log:
            for statement, values, expected in [
                ("SELECT 1", "1, 1, 'x'", {"id": 1, "a": 1, "e": "x"}),
                (
                    "ALTER TABLE t ADD COLUMN b VARCHAR(9) FIRST",
                    "'b', 2, 2, 'x'",
                    {"b": "b", "id": 2, "a": 2, "e": "x"},
                ),
                ("ALTER TABLE t MODIFY e ENUM('z','y','x')", "'b', 3, 3, 'x'", {"b": "b", "id": 3, "a": 3, "e": "x"}),
                ("ALTER TABLE t CHANGE a c INT UNSIGNED", "'b', 4, 4294967295, 'y'", {"c": 4294967295, "e": "y"}),
                ("ALTER TABLE t DROP COLUMN e", "'b', 5, 5", {"b": "b", "id": 5, "c": 5}),
                ("ALTER TABLE t MODIFY b VARCHAR(9) CHARACTER SET latin1", "'é', 6, 6", {"b": "é", "id": 6, "c": 6}),
                ("ALTER TABLE t MODIFY c DECIMAL(12,2) AFTER id", "'b', 7, 8", {"id": 7, "c": "8.00"}),
            ]:
                run(binlog_database, statement, f"INSERT INTO t VALUES ({values})")
                ((op, row),) = plain(log.read())
                assert op == "c"
                assert row.items() >= expected.items()
            assert not log.restarted
            # Another character set leaves the documents as they are.
            assert len(log.schemas) == 5 and log.changed == {0}


def test_names_in_the_log_decode_rows_of_before_several_changes(binlog_database: Database) -> None:
    with global_setting(binlog_database, "binlog_row_metadata", "'FULL'"):
        run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        with captured_log(binlog_database, "t") as log:
            run(
                binlog_database,
                "INSERT INTO t VALUES (1, 10, 20)",
                "ALTER TABLE t MODIFY a INT AFTER b",
                "INSERT INTO t (id, a, b) VALUES (2, 10, 20)",
                "ALTER TABLE t DROP COLUMN a, ADD COLUMN c TEXT",
                "INSERT INTO t (id, b, c) VALUES (3, 20, 'c')",
            )
            assert plain(log.read()) == [
                ("c", {"id": 1, "a": 10, "b": 20}),
                ("c", {"id": 2, "b": 20, "a": 10}),
                ("c", {"id": 3, "b": 20, "c": "c"}),
            ]
            assert not log.restarted


def test_without_names_a_table_whose_columns_cannot_be_told_is_read_again(binlog_database: Database) -> None:
    with global_setting(binlog_database, "binlog_row_metadata", "'NO_LOG'"):
        run(
            binlog_database,
            "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
            "CREATE TABLE swapped (id INT PRIMARY KEY, a INT, b INT)",
            "CREATE TABLE same (id INT PRIMARY KEY)",
        )
        with captured_log(binlog_database, "t", "swapped", "same") as log:
            log.log.track(frozenset((0, 1, 2)))
            run(
                binlog_database,
                "INSERT INTO t VALUES (1, 10)",
                "INSERT INTO swapped VALUES (1, 10, 20)",
                "INSERT INTO same VALUES (1)",
                "ALTER TABLE t ADD COLUMN b INT",
                "ALTER TABLE swapped MODIFY a INT AFTER b",
                "INSERT INTO t VALUES (2, 20, 30)",
                "INSERT INTO swapped (id, a, b) VALUES (2, 10, 20)",
            )
            for binding in range(3):
                log.source.captured.refresh(binding)  # as at an open that comes after the changes
            documents = log.read()
            tables = [document["_meta"]["source"]["table"] for document in documents]
            assert log.restarted == {0, 1}
            assert documents[tables.index("t")]["b"] == 30
            undecoded = next(t for t in log.transactions if 0 in t.touched)
            assert undecoded.touched[0].everything
            assert plain(documents)[-1] == ("c", {"id": 2, "b": 20, "a": 10})


@pytest.mark.parametrize("metadata", METADATA)
@pytest.mark.parametrize("copy", ["_t_gho", "_t_new"])
def test_a_copy_that_takes_the_name_is_read_as_a_whole(binlog_database: Database, copy: str, metadata: str) -> None:
    """That it is one, as online schema changes make it, only its name tells."""
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"):
        run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
        with captured_log(binlog_database, "t") as log:
            run(binlog_database, "INSERT INTO t VALUES (2, 2)")
            log.read()
            run(
                binlog_database,
                f"CREATE TABLE {copy} LIKE t",
                f"ALTER TABLE {copy} ADD COLUMN b INT DEFAULT 7",
                f"INSERT INTO {copy} (id, a) SELECT * FROM t",
                f"RENAME /* tool */ TABLE `{binlog_database.name}`.t TO _t_del, {copy} TO `t`",
                "INSERT INTO t VALUES (3, 3, 3)",
            )
            assert plain(log.read()) == [("c", {"id": 3, "a": 3, "b": 3})]
            assert log.changed == {0} and log.restarted == {0}


@pytest.mark.parametrize(
    "statements",
    [
        ["RENAME TABLE t TO old, other TO t"],
        ["RENAME TABLE t TO old", "ALTER TABLE other RENAME TO t"],
        ["DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, a INT)"],
        ["CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, a INT)"],
        ["SET STATEMENT max_statement_time = 10 FOR ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t"],
    ],
)
def test_another_table_under_the_name_is_read_anew(binlog_database: Database, statements: list[str]) -> None:
    if binlog_database.is_mysql:
        if statements[0].startswith("CREATE OR REPLACE"):
            pytest.skip("MariaDB's")
        statements = [statement.removeprefix("SET STATEMENT max_statement_time = 10 FOR ") for statement in statements]
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE other (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE p (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100))",
    )
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, *statements, "INSERT INTO t VALUES (3, 3)")
        assert plain(log.read()) == [("c", {"id": 3, "a": 3})]
        assert log.restarted == {0}


def test_a_table_that_comes_back_to_its_name_stays_itself(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "RENAME TABLE t TO x, u TO t, t TO u, x TO t", "INSERT INTO t VALUES (1)")
        assert len(log.read()) == 1
        assert not log.restarted


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE t",
        "truncate table `t`",
        "/* why */ TRUNCATE /*! TABLE */ t -- done",
        "SET STATEMENT max_statement_time = 10 FOR TRUNCATE TABLE t",
    ],
)
def test_truncate(binlog_database: Database, statement: str) -> None:
    if binlog_database.is_mysql and statement.startswith("SET STATEMENT"):
        pytest.skip("only MariaDB has SET STATEMENT")
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with captured_log(binlog_database, "t") as log:
        log.log.track(frozenset((0,)))
        run(binlog_database, statement, "INSERT INTO t VALUES (2)")
        assert plain(log.read()) == [("t", {}), ("c", {"id": 2})]
        assert log.transactions[0].touched[0].everything


def test_truncates_are_left_out_where_that_is_configured(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(binlog_database, "t", truncate="ignore") as log:
        run(binlog_database, "TRUNCATE TABLE t")
        assert log.read() == [] and len(log.transactions) == 1


def test_a_table_that_becomes_system_versioned_is_set_aside(binlog_database: Database) -> None:
    """Its deletes would be updates, and the rows of its history new rows."""
    if binlog_database.is_mysql:
        pytest.skip("only MariaDB has them")
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "ALTER TABLE t ADD SYSTEM VERSIONING", "INSERT INTO t VALUES (1, 1)", "DELETE FROM t")
        log.read()
        assert log.set_aside[0].code == "TM-MY-007" and "DROP SYSTEM VERSIONING" in log.set_aside[0].remedy
        assert log.passed == {0}
    assert log.lines == []


@pytest.mark.parametrize("charset", ["latin1", "cp1250", "utf8mb4"])
def test_statements_are_in_the_character_set_of_their_client(binlog_database: Database, charset: str) -> None:
    run(binlog_database, "CREATE TABLE `té` (id INT PRIMARY KEY)", "INSERT INTO `té` VALUES (1)")
    with captured_log(binlog_database, "té") as log:
        with binlog_database.connect(charset=charset) as connection, connection.cursor() as cursor:
            cursor.execute("TRUNCATE TABLE `té`")
        assert [op for op, _ in plain(log.read())] == ["t"]


def test_names_of_a_client_without_a_character_set_are_utf8(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE `té` (id INT PRIMARY KEY)", "INSERT INTO `té` VALUES (1)")
    with captured_log(binlog_database, "té") as log:
        run(binlog_database, "SET NAMES binary", "TRUNCATE TABLE `té`")
        assert [op for op, _ in plain(log.read())] == ["t"]


def test_labels_without_a_character_set_are_utf8(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id int PRIMARY KEY, mood enum('é', 'b') CHARACTER SET binary)")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "INSERT INTO t VALUES (1, 1)")
        assert [document["mood"] for document in log.read()] == ["é"]


def test_labels_that_are_no_texts_never_get_into_a_document(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id int PRIMARY KEY, mood enum('é', x'ff') CHARACTER SET binary)")
    run(binlog_database, "INSERT INTO t VALUES (1, 1), (2, 2)")
    if binlog_database.is_mysql:
        with (
            pytest.raises(SourceError, match="mood has labels that are no texts"),
            table_chunks(binlog_database, "t") as t,
        ):
            t.scan(10)
        return
    with table_chunks(binlog_database, "t") as chunks:
        assert [document["mood"] for document in chunks.scan(10)[1]] == ["é", "?"]


def test_labels_that_the_catalog_cannot_show_are_never_guessed(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id int PRIMARY KEY, mood enum('😀', 'b') CHARACTER SET utf8mb4)")
    insert = "INSERT INTO t VALUES (1, 1)"
    with (
        global_setting(binlog_database, "binlog_row_metadata", "'NO_LOG'"),
        captured_log(binlog_database, "t") as log,
    ):
        run(binlog_database, insert)
        log.read()
    assert log.set_aside[0].code == "TM-MY-032"
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "DELETE FROM t", insert)
        assert [document["mood"] for document in log.read()][-1] == "😀"
