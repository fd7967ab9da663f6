"""Mutants of ``captures/postgres``, and of the engine where PostgreSQL's tests are the ones that show it."""

from __future__ import annotations

from tests.mutants.edits import Code, Text
from tests.mutants.model import Mutant

_CAPTURES = "tests/captures"
_POSTGRES = f"{_CAPTURES}/postgres"
_CONFORMANCE = "tests/conformance"
_COLUMNS = "captures/postgres/chunks/column_reader.py"
_FENCES = f"{_POSTGRES}/chunks/test_fences.py"
_COUNTED = f"{_POSTGRES}/tables/test_counted_scans.py"
_BUSY = f"{_CONFORMANCE}/test_backfill.py::test_rows_that_change_while_they_are_read[postgres-lines]"
_COMMITS = f"{_POSTGRES}/chunks/test_waiting_commits.py"
_BETWEEN_SESSIONS = (
    f"{_POSTGRES}/tables_that_change/test_names_in_between.py::test_a_name_that_only_existed_while_the_capture_was_away"
)
_BETWEEN = f"{_POSTGRES}/tables_that_change/test_names_in_between.py::test_a_name_between_two_looks"
_LARGE = f"{_CAPTURES}/engine/test_capture.py::test_an_unchanged_large_value_is_read_again_until_it_is_whole"

POSTGRES = (
    # The fence.
    Mutant(
        "the high position is taken before the snapshot",
        "captures/postgres/chunks/reader.py::CopyChunkReader.read",
        Code(
            "fence = self._begin(table, table.lock())",
            """
high = self._high()
fence = replace(self._begin(table, table.lock()), high=high)
""",
        ),
        (_FENCES,),
        of="chunks do not wait for the fence's high position",
    ),
    Mutant(
        "what the snapshot sees is asked before the transaction begins",
        "captures/postgres/chunks/reader.py::CopyChunkReader.read",
        Code(
            "fence = self._begin(table, table.lock())",
            """
seen = Snapshot.parse(self._value("SELECT pg_current_snapshot()", table.name))
fence = replace(self._begin(table, table.lock()), snapshot=seen)
""",
        ),
        (_FENCES,),
        of="rows touched by hidden transactions are emitted",
    ),
    Mutant(
        "the snapshot is taken before the table is locked",
        "captures/postgres/chunks/reader.py::CopyChunkReader._begin",
        Text("SET LOCAL statement_timeout = '{}s'; {}", "SET LOCAL statement_timeout = '{}s'; SELECT 1; {}"),
        (
            f"{_CAPTURES}/engine/test_altered_tables.py::test_a_table_that_is_rewritten_before_a_chunk_reads_it_is_not_empty",
        ),
    ),
    Mutant(
        "each statement of a chunk has a snapshot of its own",
        "captures/postgres/chunks/reader.py::CopyChunkReader._begin",
        Text("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY"),
        (_FENCES,),
    ),
    Mutant(
        "columns: the high position is taken before the snapshot",
        f"{_COLUMNS}::ColumnChunkReader._read_columns",
        Code(
            """
snapshot = self._begin_columns(arrow, table)
chunk = self._scan_columns(request, snapshot, arrow, table, selection, pass_on)
""",
            """
high = self._high()
snapshot = self._begin_columns(arrow, table)
chunk = self._scan_columns(request, snapshot, arrow, table, selection, pass_on)
chunk.fence = SnapshotFence(snapshot, high)
""",
        ),
        (_FENCES,),
    ),
    Mutant(
        "columns: the snapshot is taken before the table is locked",
        f"{_COLUMNS}::ColumnChunkReader._begin_columns",
        Code(
            "begin + table.lock().as_string(self._session)",
            "begin + \"SELECT 'a text'; \" + table.lock().as_string(self._session)",
        ),
        (
            f"{_CAPTURES}/engine/test_altered_tables.py::test_a_table_that_is_rewritten_before_a_chunk_reads_it_is_not_empty",
        ),
    ),
    Mutant(
        "columns: each statement of a chunk has a snapshot of its own",
        f"{_COLUMNS}::ColumnChunkReader._begin_columns",
        Text("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY"),
        (_FENCES,),
    ),
    Mutant(
        "columns: a chunk of an altered table is read as the table was",
        f"{_COLUMNS}::ColumnChunkReader._scan_columns",
        Code("self._check(table)"),
        (f"{_POSTGRES}/chunks/test_column_chunks.py::test_a_table_that_was_altered_is_not_read",),
    ),
    Mutant(
        "columns: a full chunk is taken for the last one",
        f"{_COLUMNS}::ColumnChunkReader._scan_columns",
        Code("chunk.end = whole and len(found) < limit", "chunk.end = whole"),
        (f"{_POSTGRES}/chunks/test_column_chunks.py::test_a_scan_of_several_chunks_ends",),
    ),
    Mutant(
        "transactions that run at the snapshot count as visible",
        "captures/postgres/tables/snapshots.py::Snapshot.hides",
        Code("return full >= self.xmax or full in self.running", "return full >= self.xmax"),
        (_FENCES, f"{_POSTGRES}/tables/test_snapshots.py"),
        of="rows touched by hidden transactions are emitted",
    ),
    Mutant(
        "a snapshot of a standby is taken for one of a primary",
        "captures/postgres/tables/snapshots.py::Snapshot.parse",
        Code("int(xmin) if recovery else int(xmax)", "int(xmax)"),
        (f"{_POSTGRES}/tables/test_snapshots.py", f"{_POSTGRES}/server/test_standby.py"),
    ),
    Mutant(
        "the replay position of a standby is believed while more of the log is there",
        "captures/postgres/tables/snapshots.py::_REPLAY_POSITION",
        Text("ELSE pg_last_wal_replay_lsn() + 1 END", "ELSE pg_last_wal_replay_lsn() END"),
        (f"{_POSTGRES}/server/test_standby.py",),
    ),
    # The engine around it.
    Mutant(
        "chunks are emitted wherever the log stands",
        "captures/scheduling/backfills.py::Backfills.emit_ready",
        Code("flight.scan.ready(position)", "flight.scan.ready(1 << 62)"),
        (f"{_POSTGRES}/chunks/test_chunk_emission.py",),
        of="chunks do not wait for the fence's high position",
    ),
    Mutant(
        "a session forgets what the last one emitted unseen",
        "captures/scheduling/backfills.py::Backfills.__init__",
        Code("self.hidden.restore(state.hidden)"),
        (_COMMITS,),
        of="hidden transactions with unknown keys touched nothing",
    ),
    Mutant(
        "rows that were read again are emitted whatever the log touched",
        "captures/scheduling/backfills.py::Backfills.emit_ready",
        Code("emission.keep_rereads", "range(len(chunk.rereads))"),
        (f"{_POSTGRES}/chunks/test_chunk_emission.py",),
        of="reread rows are emitted whatever the log touched",
    ),
    Mutant(
        "checkpoints are written in the middle of transactions",
        "captures/engine/engine.py::Capture._turn",
        Code("log.between_transactions", "True"),
        (f"{_CAPTURES}/engine/test_reconnection.py", f"{_CONFORMANCE}/test_log.py"),
    ),
    Mutant(
        "a table that is added waits for no transaction",
        "captures/postgres/source.py::PostgresSource.passed",
        Code("return self._snapshot().xmin >= int(barrier)", "return True"),
        (
            f"{_CAPTURES}/engine/test_altered_tables.py::test_a_table_that_is_added_waits_for_the_transaction_that_began_last",
        ),
    ),
    Mutant(
        "a barrier is the snapshot's xmax",
        "captures/postgres/source.py::PostgresSource.barrier",
        Code("return snapshot.xmin + int(str(ahead))", "return snapshot.xmax + 0 * int(str(ahead))"),
        (
            f"{_CAPTURES}/engine/test_altered_tables.py::test_a_table_that_is_added_waits_for_the_transaction_that_began_last",
        ),
    ),
    Mutant(
        "a table of lower priority is read while the log holds up the one before it",
        "captures/scheduling/backfills.py::Backfills.start",
        Code("""
if self._yields(first):
    break
"""),
        (f"{_POSTGRES}/chunks/test_chunk_emission.py",),
    ),
    Mutant(
        "an idle capture says how far it is at the heartbeat only",
        "captures/engine/checkpoints.py::Checkpoints.due",
        Code("progress >= PROGRESS_BYTES", "progress < 0"),
        (f"{_POSTGRES}/server/test_retention.py::test_an_idle_capture_beside_busy_tables_confirms_what_they_write",),
    ),
    # What the log says of its changes.
    Mutant(
        "the keys that the log touches are not recorded",
        "captures/postgres/log/changes.py::Changes._enter",
        Code(
            "relation.touched = transaction.told.touched.setdefault(relation.binding, TouchedKeys())",
            "relation.touched = TouchedKeys()",
        ),
        (_BUSY, _COMMITS),
        of="rows touched since the chunk was started are emitted",
    ),
    Mutant(
        "events without all columns count as whole",
        "captures/postgres/log/changes.py::Changes._decode",
        Code("touched.add(key, partial, index > 0)", "touched.add(key, False, index > 0)"),
        (_LARGE, _COMMITS),
        of="rows dropped for partial events are not read again",
    ),
    Mutant(
        "rows that moved without all columns count as updated",
        "captures/postgres/log/changes.py::Changes._decode",
        Code("touched.add(key, partial, index > 0)", "touched.add(key, partial)"),
        (_COMMITS,),
        of="rows moved without all columns count as updated",
    ),
    Mutant(
        "rows that moved without all columns after the backfill are forgotten",
        "captures/postgres/log/changes.py::Changes._decode",
        Code("transaction.add_incomplete(relation.binding, keys[1][0], batch, self._incomplete_limit)", "pass"),
        (_LARGE,),
        of="rows moved without all columns are not read again",
    ),
    Mutant(
        "the old key of a row that moved is not recorded",
        "captures/postgres/log/changes.py::Changes._decode",
        Code("enumerate(keys)", "list(enumerate(keys))[-1:]"),
        (_COMMITS, _BUSY),
        of="rows touched since the chunk was started are emitted",
    ),
    Mutant(
        "a TRUNCATE touches no keys",
        "captures/postgres/log/changes.py::Changes.truncate",
        Code("""
if relation.touched is not None:
    relation.touched.truncate()
"""),
        (f"{_POSTGRES}/log/test_log_contents.py::test_several_tables_truncated_at_once",),
        of="truncates are overlooked",
    ),
    Mutant(
        "all tables count as recorded",
        "captures/postgres/log/stream.py::PgoutputLog._start",
        Code(
            "told = Transaction(begin.xid, self._next_tracked)", "told = Transaction(begin.xid, frozenset(range(99)))"
        ),
        (f"{_POSTGRES}/log/test_log_contents.py::test_a_transaction_knows_of_which_tables_its_keys_are_recorded",),
        of="hidden transactions with unknown keys touched nothing",
    ),
    Mutant(
        "changes that were returned before the connection broke are returned again",
        "captures/postgres/log/stream.py::PgoutputLog.reconnect",
        Code("self._returned = max(self._returned, self._changes)"),
        (f"{_POSTGRES}/log/test_broken_streams.py::test_a_walsender_that_is_terminated_in_a_transaction",),
    ),
    Mutant(
        "the rows of one record have one place",
        "captures/postgres/log/stream.py::PgoutputLog._fill",
        Code("self._place = self._place + 1 if lsn == self._record else 0", "self._place = 0"),
        (f"{_POSTGRES}/log/test_log_contents.py::test_rows_that_are_copied_in",),
    ),
    # Scans.
    Mutant(
        "a range ends before its last key",
        "captures/postgres/tables/scan_target.py::ScanTarget._between",
        Code('("<=", until)', '("<", until)'),
        (f"{_POSTGRES}/chunks/test_key_scans.py::test_a_range_of_a_composite_key",),
        of="a split loses what it cuts off",
    ),
    Mutant(
        "a full chunk is taken for the last one",
        "captures/contract/chunk.py::Chunk.take_scan",
        Code("(conditional or len(rows) < limit)", "(conditional or len(rows) <= limit)"),
        (
            f"{_CONFORMANCE}/test_backfill.py::test_a_backfill_and_the_log_after_it[postgres]",
            "tests/captures/mysql/chunks/test_reader.py::test_a_scan_ends_when_fewer_rows_come_than_were_asked_for",
        ),
        of="a range is finished with the one before it",
    ),
    Mutant(
        "a physical scan goes on in a rewritten file",
        "captures/postgres/chunks/pages.py::next_pages",
        Code("raise Rewritten", "pass"),
        (f"{_POSTGRES}/chunks/test_page_scans.py",),
        of="a physical scan goes on in a rewritten file",
    ),
    Mutant(
        "pages that came since the scan began are read too",
        "captures/postgres/chunks/pages.py::_rest",
        Code("cursor.end is not None", "False"),
        (f"{_POSTGRES}/chunks/test_page_scans.py::test_pages_that_came_later_are_left_to_the_log",),
    ),
    Mutant(
        "rows without a key come from the chunk and from the log",
        "captures/postgres/tables/snapshots.py::ImportedSnapshot.conditions",
        Code("self.before is None", "True"),
        (_COUNTED, f"{_CAPTURES}/scheduling/test_page_scan_captures.py"),
        of="the log gives what the base of a scan without keys shows",
    ),
    Mutant(
        "ids that have gone round tell which transaction wrote a row",
        "captures/postgres/tables/counted_scans.py::CountedScans._open",
        Code("scan.hold |= standby or snapshot.xmax >= FIRST_EPOCH", "scan.hold |= standby"),
        (_COUNTED,),
    ),
    Mutant(
        "chunks of a held snapshot are read in their own",
        "captures/postgres/tables/snapshots.py::ImportedSnapshot.imported",
        Code("not self.exported", "True"),
        (_COUNTED,),
        of="rows without keys that are deleted ahead of the scan count less than never",
    ),
    Mutant(
        "the base does not have to show what the log has left out",
        "captures/postgres/tables/counted_scans.py::CountedScans._open",
        Code("not resumed and any(snapshot.hides(int(xid)) for xid in unseen)", "False"),
        (_COMMITS,),
        of="the log gives rows without keys before there is a base",
    ),
    Mutant(
        "rows of subtransactions that ran at the base are taken for those of others",
        "captures/postgres/tables/counted_scans.py::Base.ran",
        Code(
            "return not self.certain or (int(txn) - self.snapshot.xmax) % FIRST_EPOCH >= FIRST_EPOCH // 2",
            "return not self.certain",
        ),
        (_COUNTED,),
        of="ids of subtransactions are taken for those of others",
    ),
    Mutant(
        "a scan without keys is resumed after rows were deleted",
        "captures/postgres/tables/counted_scans.py::CountedScans.kept",
        Code(
            'return "" if scan.rows.changed or scan.rows.base is None else scan.rows.base.text()',
            'return "" if scan.rows.base is None else scan.rows.base.text()',
        ),
        (_COUNTED,),
        of="a scan without keys is resumed after rows were deleted",
    ),
    Mutant(
        "labels that the log has shown are forgotten",
        "captures/postgres/tables_that_change/shown_changes.py::ShownNames.noted",
        Code("self._labels.items()", "()"),
        (_BETWEEN,),
    ),
    Mutant(
        "columns that the log has shown are forgotten",
        "captures/postgres/tables_that_change/shown_changes.py::ShownNames.note",
        Code("noted = with_columns(noted, [(column.name, column.type_oid) for column in relation.columns])"),
        (f"{_BETWEEN_SESSIONS}[column, under another runtime]",),
    ),
    Mutant(
        "partitions that the log has shown are forgotten",
        "captures/postgres/tables_that_change/shown_changes.py::ShownNames.noted",
        Code("partitions", "()"),
        (f"{_POSTGRES}/tables_that_change/test_lost_partitions.py::test_a_partition_whose_rows_stay",),
    ),
    Mutant(
        "another file of a partition is harmless",
        "captures/postgres/tables_that_change/comparison.py::_that_lost_rows",
        Code("changed.rewritten", "changed.rewritten[:0]"),
        (f"{_POSTGRES}/tables_that_change/test_partitions.py::test_a_partition_that_lost_rows[truncated]",),
    ),
    Mutant(
        "a partition that the log shows twice was filled at once",
        "captures/postgres/tables_that_change/rewrites.py::has_lost_none",
        Code("filled is None or filled.times == 1", "True"),
        (f"{_POSTGRES}/tables_that_change/test_lost_partitions.py::test_rows_that_are_lost",),
    ),
    Mutant(
        "a chunk of an altered table is decoded as the table was",
        "captures/postgres/chunks/reader.py::CopyChunkReader.read",
        Code(
            """
fence = self._begin(table, table.lock())
self._check(table)
""",
            "fence = self._begin(table, table.lock())",
        ),
        (f"{_CAPTURES}/engine/test_altered_tables.py::test_a_column_that_changes_its_type_before_a_chunk_reads_it",),
    ),
)
