"""Mutants of ``captures/mysql``."""

from __future__ import annotations

from tests.mutants.edits import Code
from tests.mutants.model import Mutant

_MYSQL = "tests/captures/mysql"
_CONFORMANCE = "tests/conformance"
_FENCE = f"{_MYSQL}/chunks/test_fence.py"
_ONLY = f"{_MYSQL}/test_mysql_only.py"
_RACE = f"{_MYSQL}/chunks/test_fence_race.py"
_KEYLESS = f"{_MYSQL}/chunks/test_keyless_tables.py"
_BUSY = (
    f"{_CONFORMANCE}/test_backfill.py::test_rows_that_change_while_they_are_read[mariadb-lines]",
    f"{_CONFORMANCE}/test_backfill.py::test_rows_that_change_while_they_are_read[mysql-lines]",
)

MYSQL = (
    Mutant(
        "MySQL: a hashed value that cannot be read is shown",
        "captures/mysql/rows/partial_rows.py::RepairedImage.bad",
        Code('shown = f"{len(raw)} characters" if column.salt else raw', "shown = raw"),
        (f"{_MYSQL}/values/test_unreadable_values.py::test_a_hashed_column_shows_nothing_of_the_value",),
    ),
    Mutant(
        "MySQL: a change of JSON that cannot be read is an error",
        "captures/mysql/rows/partial_rows.py::RepairedRows._changed",
        Code("MISFITS", "KeyError"),
        (
            f"{_MYSQL}/values/test_unreadable_values.py::test_a_change_of_a_value_that_cannot_be_read_has_the_row_read_again",
        ),
    ),
    # The fence.
    Mutant(
        "MySQL: the high position is taken before the snapshot",
        "captures/mysql/chunks/fence.py::MysqlGtidFences.open",
        Code(
            """
self._session.rows(_SNAPSHOT)
return GtidFence(MysqlGtids(str(executed)), end_of_log(self._session))
""",
            """
high = end_of_log(self._session)
self._session.rows(_SNAPSHOT)
return GtidFence(MysqlGtids(str(executed)), high)
""",
        ),
        (f"{_ONLY}::test_what_a_snapshot_shows_is_in_the_log_before_its_fence",),
        of="chunks do not wait for the fence's high position",
    ),
    Mutant(
        "MySQL: what is visible is read after the snapshot",
        "captures/mysql/chunks/fence.py::MysqlGtidFences.open",
        Code(
            """
self._session.rows(_SNAPSHOT)
""",
            """
self._session.rows(_SNAPSHOT)
executed = self._session.value("SELECT @@GLOBAL.gtid_executed")
""",
        ),
        (f"{_ONLY}::test_what_a_fence_takes_for_visible_its_snapshot_shows",),
        of="rows touched by hidden transactions are emitted",
    ),
    Mutant(
        "MySQL: nothing is hidden",
        "captures/mysql/chunks/fence.py::GtidFence.hides",
        Code("gtid not in self.executed", "False"),
        (_FENCE, _ONLY),
        of="rows touched by hidden transactions are emitted",
    ),
    Mutant(
        "MySQL: transactions without GTIDs are asked for by GTIDs",
        "captures/mysql/source.py::MysqlSource._stream",
        Code("check_gtids(self._session, start)"),
        (f"{_ONLY}::test_gtids_that_are_switched_on_and_off_while_a_log_is_read",),
    ),
    Mutant(
        "MariaDB: the log's end stands for what the snapshot shows",
        "captures/mysql/chunks/fence.py::MariadbFences.open",
        Code(
            'visible = position(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))',
            "visible = max(end_of_log(self._session), len(found))",
        ),
        (_FENCE, _RACE),
        of="rows touched by hidden transactions are emitted",
    ),
    Mutant(
        "MariaDB: GTIDs of the log count as visible",
        "captures/mysql/chunks/fence.py::MariadbFences.open",
        Code("gtids if visible >= logged else None", "gtids"),
        (_RACE,),
        of="rows touched by hidden transactions are emitted",
    ),
    Mutant(
        "without GTIDs: what was logged when the snapshot was opened counts as visible",
        "captures/mysql/chunks/fence.py::WatermarkFences.open",
        Code(
            "return PositionFence(logged, end_of_log(self._session), gtids=executed)",
            "return PositionFence(end_of_log(self._session), logged, gtids=executed)",
        ),
        (_FENCE,),
        of="rows touched by hidden transactions are emitted",
    ),
    Mutant(
        "tables without transactions have the fence of those with",
        "captures/mysql/chunks/reader.py::SelectChunkReader._read",
        Code("not target.table.transactional", "False"),
        (_FENCE,),
        of="rows touched by hidden transactions are emitted",
    ),
    Mutant(
        "the table may be altered before a chunk's first row",
        "captures/mysql/chunks/reader.py::SelectChunkReader._read",
        Code(
            """
self._session.rows(target.touch())
check_shape(self._session, target)
""",
            "self._session.rows(target.touch())",
        ),
        (f"{_MYSQL}/chunks/test_reader.py::test_a_table_that_was_altered_is_noticed",),
    ),
    Mutant(
        "tables that are read together may have been altered",
        "captures/mysql/chunks/reader.py::SelectChunkReader.read_together",
        Code("same[place]", "True"),
        (f"{_MYSQL}/chunks/test_reading_together.py::test_one_that_was_altered_or_has_no_transactions_is_left_out",),
    ),
    Mutant(
        "tables without transactions are read together with others",
        "captures/mysql/chunks/reader.py::SelectChunkReader.read_together",
        Code("target.table.transactional", "True"),
        (f"{_MYSQL}/chunks/test_reading_together.py::test_one_that_was_altered_or_has_no_transactions_is_left_out",),
        of="rows touched by hidden transactions are emitted",
    ),
    Mutant(
        "a capture waits for nothing that is logged and not visible",
        "captures/mysql/source.py::MysqlSource.passed",
        Code("return not any(map(visible.hides, logged))", "return bool(visible)"),
        (_RACE,),
        of="hidden transactions with unknown keys touched nothing",
    ),
    Mutant(
        "a capture waits for no prepared transaction",
        "captures/mysql/source.py::MysqlSource.passed",
        Code("prepared.isdisjoint(prepared_transactions(self._session))", "bool(prepared_transactions)"),
        (f"{_MYSQL}/test_source.py", f"{_MYSQL}/chunks/test_xa_backfill.py"),
        of="hidden transactions with unknown keys touched nothing",
    ),
    # What the log says of its changes.
    Mutant(
        "the keys that the log touches are not recorded",
        "captures/mysql/log/open_transaction.py::OpenTransaction._enter",
        Code(
            "table.touched = self._current.touched.setdefault(table.binding, TouchedKeys())",
            "table.touched = TouchedKeys()",
        ),
        (f"{_MYSQL}/values/test_both_sides.py::test_keys_of_each_type", *_BUSY),
        of="rows touched since the chunk was started are emitted",
    ),
    Mutant(
        "rows without all columns count as whole",
        "captures/mysql/rows/partial_rows.py::PartialRows._touch",
        Code("sink.touched.add(key, partial, inserted)", "sink.touched.add(key, False, inserted)"),
        (f"{_MYSQL}/log/test_stream.py::test_row_images_without_every_column",),
        of="rows dropped for partial events are not read again",
    ),
    Mutant(
        "rows that moved without all columns count as updated",
        "captures/mysql/rows/partial_rows.py::PartialRows._touch",
        Code("sink.touched.add(key, partial, inserted)", "sink.touched.add(key, partial)"),
        (f"{_MYSQL}/log/test_stream.py::test_row_images_without_every_column",),
        of="rows moved without all columns count as updated",
    ),
    Mutant(
        "the old key of a row that moved is not recorded",
        "captures/mysql/rows/log_decoder.py::_whole_update.write",
        Code('touched.add(old_key.encode("latin-1"), False)', "pass"),
        (f"{_MYSQL}/rows/test_log_decoder.py", f"{_MYSQL}/log/test_stream.py::test_changes_keys_and_positions", *_BUSY),
        of="rows touched since the chunk was started are emitted",
    ),
    Mutant(
        "a TRUNCATE touches no keys",
        "captures/mysql/log/open_transaction.py::OpenTransaction.truncation",
        Code(
            """
self._enter(table)
if table.touched is not None:
    table.touched.truncate()
""",
            "self._enter(table)",
        ),
        (f"{_MYSQL}/log/test_statement_effects.py::test_truncate",),
        of="truncates are overlooked",
    ),
    Mutant(
        "changes that were returned before the connection broke are returned again",
        "captures/mysql/log/stream.py::BinlogLog._begin",
        Code("written = broken.row_events", "written = 0"),
        (f"{_MYSQL}/log/test_stream.py::test_reconnecting_in_the_middle_of_a_transaction_repeats_nothing",),
    ),
    # Scans.
    Mutant(
        "a scan in one snapshot goes on in another one",
        "captures/mysql/chunks/snapshot_scans.py::SnapshotScan.read",
        Code("self._given != _given(request.plan.cursor)", "False"),
        (_KEYLESS,),
        of="a physical scan goes on in a rewritten file",
    ),
    Mutant(
        "rows without a key come from the snapshot and from the log",
        "captures/mysql/chunks/snapshot_scans.py::in_snapshot",
        Code("return True if shown else None", "return False if shown else None"),
        (_KEYLESS,),
        of="truncates are overlooked where rows have no keys",
    ),
    # Partitions.
    Mutant(
        "a partition's rows are those of its definition of now",
        "captures/mysql/tables/catalog.py::Partitions.condition",
        Code("position > self.until", "position"),
        (f"{_MYSQL}/tables_that_change/test_exchanged_partitions.py",),
    ),
)
