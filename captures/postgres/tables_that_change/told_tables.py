"""Captured tables of which the log itself tells that an ALTER TABLE rewrote them.

It does so where the event trigger of ``tidemark.captures.postgres.server.rewrite_trigger`` exists. Anybody may write
its messages, and it may be disabled. So a message says when to compare a table, and what happened. It never has a row
left unread that the catalogs have read, and without one everything is as if there were no trigger.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import psycopg

from tidemark.captures.postgres.catalog.columns import Table, recorded
from tidemark.captures.postgres.catalog.table_record import TableRecord
from tidemark.captures.postgres.server.rewrite_trigger import Reason
from tidemark.captures.postgres.server.session import asking
from tidemark.captures.postgres.tables.bindings import PostgresBinding
from tidemark.captures.postgres.tables.bound_relations import AlteredTable
from tidemark.captures.postgres.tables.noted_table import NotedTable
from tidemark.captures.postgres.tables_that_change.captured_tables import LOOKING_PART, CapturedTables
from tidemark.captures.postgres.tables_that_change.comparison import seen_now
from tidemark.captures.postgres.tables_that_change.table_fingerprint import fingerprint

logger = logging.getLogger(__name__)


class ToldTables(CapturedTables):
    """The captured tables of a source with the event trigger: a rewritten one is compared where the log says so."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._told: dict[int, tuple[str, Reason]] = {}  # By binding, the last transaction that rewrote its table.
        self._compare_at = 0.0

    def rewritten(self, reasons: Mapping[int, Reason], transaction: int) -> bool:
        """A transaction, which has been read to its end, tells that an ALTER TABLE rewrote relations in it.

        Args:
            reasons: Why, by the relation's oid. Anybody may have written them.
            transaction: Its id, in 32 bits.

        Returns:
            Whether ``altered`` is to be asked before more of the log is read: captured tables are among them.
        """
        found = False
        for binding in self.captured:
            stores = reasons.keys() & {store.oid for store in recorded(binding.table).stores}
            if stores:
                reason = reduce(or_, (reasons[oid] for oid in stores))
                self._names_shown.rewritten(binding, reason)
                self._told[binding.index] = str(transaction), reason
                found = True
        return found and time.monotonic() >= self._compare_at

    def altered(self, position: int) -> list[AlteredTable] | None:
        """The tables of ``CapturedTables.altered``, without waiting for tables of which the log itself tells."""
        taken = self._take_told() if self._told and time.monotonic() >= self._compare_at else []
        altered = super().altered(position)
        return [*taken, *(altered or ())] if taken else altered

    def _take_told(self) -> list[AlteredTable]:
        """Continues with the tables of which the log shows all that happened to them. The catalogs tell of others."""
        began = time.monotonic()
        told, self._told = self._told, {}
        taken = []
        for index, (transaction, reason) in told.items():
            if index not in self._left_out and (altered := self._take_where_told(index, transaction, reason)):
                taken.append(altered)
        # Whoever writes messages does not keep the log from being read.
        now = time.monotonic()
        self._compare_at = now + LOOKING_PART * (now - began)
        return taken

    def _take_where_told(self, index: int, transaction: str, reason: Reason) -> AlteredTable | None:
        binding = self.bindings[index]
        with asking(f"reading the columns of {binding.name}"):
            seen, since, fresh, failure = seen_now(self.session, self._config, binding)
            if (
                fresh is None
                or failure is not None
                or not is_sole_change(self.session, binding, fresh, since, transaction)
            ):
                fresh = None
        altered = None
        if fresh is not None and seen is not None:
            logger.info("%s was rewritten by ALTER TABLE in transaction %s: %s", binding.name, transaction, reason.text)
            altered = self._take(binding, fresh, since)
        if altered is None:
            self.found.add(index)  # More happened to it, or nothing: it is compared where the log ends now.
        else:
            self._seen[index] = seen
        return altered


# VACUUM and ANALYZE write a row of pg_class in its place, and leave its xmin.
_LAST_WRITTEN = """
SELECT count(*) FROM pg_catalog.pg_class WHERE oid = ANY(%s::oid[]) AND xmin::text = %s
"""


def is_sole_change(
    session: psycopg.Connection, binding: PostgresBinding, table: Table, since: str, transaction: str
) -> bool:
    """Whether the transaction rewrote the table, and nothing else wrote what is noted of it since.

    The catalogs then show the table as the log has it where that transaction ends, however much of the log is left. It
    does not hold of an ALTER TABLE after a SAVEPOINT: the catalogs then have the id of a subtransaction.

    Raises psycopg.Error.
    """
    record, before = recorded(table), binding.noted
    now = fingerprint(record, binding.resource, replace(binding, table=table).key, since)
    if not _same_otherwise(before, now) or not _columns_are_of(before, now, record, transaction):
        return False
    files = [store.oid for store in record.rewritten(before.files)]
    last_written = session.execute(_LAST_WRITTEN, [files, transaction]).fetchone()
    return bool(files) and last_written == (len(files),)


def _same_otherwise(before: NotedTable, now: NotedTable) -> bool:
    """Whether two fingerprints are the same but for columns and files."""
    mine = before.oid, before.key, before.entry, before.options, before.readable, before.partitions
    return mine == (now.oid, now.key, now.entry, now.options, now.readable, now.partitions)


def _columns_are_of(before: NotedTable, now: NotedTable, record: TableRecord, transaction: str) -> bool:
    """Whether the transaction wrote all columns that are not as before, and dropped none."""
    added = now.columns.keys() - before.columns.keys()
    if before.attributes is None or record.attributes != before.attributes + len(added):
        return False
    if not before.columns.keys() <= now.columns.keys():
        return False
    return all(column.written == transaction or column == before.columns.get(n) for n, column in now.columns.items())
