"""The bound tables as the catalogs show them, when a source opens and later, compared with their noted fingerprints."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from msgspec.structs import replace

from tidemark.captures.contract.errors import TableAway
from tidemark.captures.contract.in_words import in_words
from tidemark.captures.contract.table_changes import Consequence
from tidemark.captures.postgres.catalog.columns import Table, recorded
from tidemark.captures.postgres.catalog.table_record import Store, read_digests
from tidemark.captures.postgres.server.config import EndpointConfig, ResourceConfig
from tidemark.captures.postgres.server.session import asking
from tidemark.captures.postgres.server.setup import lacking
from tidemark.captures.postgres.tables.bindings import PostgresBinding, absent, bound_tables
from tidemark.captures.postgres.tables.noted_table import NOTHING_SHOWN, NotedTable
from tidemark.captures.postgres.tables.prerequisites import kinds_failure, log_failures, publication_failures
from tidemark.captures.postgres.tables_that_change import table_changes
from tidemark.captures.postgres.tables_that_change.column_fills import present, with_fills
from tidemark.captures.postgres.tables_that_change.rewrites import (
    condition_of,
    had_rows_before_it_joined,
    has_lost_none,
    holds_rows,
)
from tidemark.captures.postgres.tables_that_change.table_fingerprint import (
    Difference,
    Handling,
    difference,
    fingerprint,
    had_no_key,
)
from tidemark.captures.tables.table_binding import check_any_fit
from tidemark.captures.tables.truncation import Truncation
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding, JsonObject

logger = logging.getLogger(__name__)

NAMED = 50
"""Columns or partitions that a warning names, at most."""


def oldest_running(session: psycopg.Connection) -> str:
    """Every transaction below this one has ended, and its changes of the catalogs are visible. Raises psycopg.Error."""
    row = session.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text").fetchone()
    assert row is not None
    return str(row[0])


class Seen(NamedTuple):
    """A bound table as the catalogs show it.

    Attributes:
        digest: Of its record, and read before the table: an ALTER in between is seen at the next look. None if there is
            no such table.
        since: See ``oldest_running``; not younger than the table.
        table: As of ``present``.
        failure: As of ``why_unfit``.
    """

    digest: str | None
    since: str
    table: Table | None
    failure: SourceError | None


def seen_now(session: psycopg.Connection, config: EndpointConfig, binding: PostgresBinding) -> Seen:
    """Reads one. Raises as ``present``."""
    path = binding.table.path
    digest = read_digests(session, config.publication, [path]).get(path)
    since = oldest_running(session)
    table = present(session, config, binding)
    return Seen(digest, since, table, why_unfit(session, config, binding, table))


def opened_bindings(
    session: psycopg.Connection,
    config: EndpointConfig,
    bindings: Sequence[Binding],
    resources: Sequence[ResourceConfig],
) -> tuple[list[PostgresBinding], list[str | None]]:
    """All bindings, and for each the digest of its table's record; None for a table that cannot be captured.

    Raises SourceError if none of the tables can be captured.
    """
    with asking("reading the tables' columns"):
        # An ALTER in between causes one more look, without a consequence.
        names = [(resource.schema_name, resource.table) for resource in resources]
        digests = read_digests(session, config.publication, names)
        since = oldest_running(session)
        tables = bound_tables(session, resources, config.publication)
    bound, seen = [], []
    for index, (binding, resource, table) in enumerate(zip(bindings, resources, tables, strict=True)):
        with asking(f"reading the definition of {resource.name}"):
            unfit = next(log_failures(session, config, resource, table), None)
        seen.append(digests.get((resource.schema_name, resource.table)) if unfit is None else None)
        made = PostgresBinding(
            index,
            binding.state_key,
            resource,
            table if table is not None and unfit is None else absent(resource),
            emit_truncate=config.truncation is Truncation.EMIT,
            salt=config.hash_salt.get_secret_value().encode(),
            on_bad_value=config.on_bad_value,
            unfit=unfit,
            identified=config.identifies_columns,
            rereads_gone=config.on_partition_gone == "reread",
        )
        if unfit is None:
            made.noted = noted_of(made, since)
            with asking(f"reading what fills new columns of {made.name}"):
                made.table = with_fills(session, made, made.table)  # Columns may be newer than the record.
        bound.append(made)
    check_any_fit(bound)
    return bound, seen


def noted_of(binding: PostgresBinding, since: str) -> NotedTable:
    """The ``fingerprint`` of the binding's table."""
    identified = binding.identified
    return fingerprint(recorded(binding.table), binding.resource, binding.key, since, identified=identified)


def noted_as_before(session: psycopg.Connection, binding: PostgresBinding, identity: JsonObject) -> bool:
    """Whether the binding's table changed since an earlier session's state: it then has the fingerprint of that."""
    before = _noted_earlier(binding, identity)
    if before is None or not _changed_since(binding, before):
        binding.noted = noted_of(binding, binding.noted.since)  # It says whether columns were identified.
        return False
    binding.noted = before
    with asking(f"reading what fills new columns of {binding.name}"):
        binding.table = with_fills(session, binding, binding.table)
    return True


def were_identified(binding: PostgresBinding, identity: JsonObject) -> bool:
    """Whether an earlier session's schemas had the identities of the binding's columns, or there were none of it.

    To a log whose schemas began without them, those columns would be new ones.
    """
    tables = identity.get("tables")
    before = None if tables is None else tables.get(binding.state_key)
    return tables is not None and (before is None or bool(before.get("identified")))


def _noted_earlier(binding: PostgresBinding, identity: JsonObject) -> NotedTable | None:
    """The ``fingerprint`` of the binding's table in an earlier session's state; None if it had none.

    Another table with its name has none, and its key is left out: the engine empties both when it begins.
    """
    now = binding.noted
    state: JsonObject | None = (identity.get("tables") or {}).get(binding.state_key)
    if state is None:
        # All that earlier versions kept.
        entry = (identity.get("published") or {}).get(binding.state_key)
        if entry is None or (now.entry or "").split()[1:2] == [entry]:
            return None
        return replace(now, entry=entry)
    before = NotedTable.of(state)
    return replace(before, key=now.key) if before.oid == now.oid else None


def _changed_since(binding: PostgresBinding, before: NotedTable) -> bool:
    """Whether anything of the binding's table differs from a fingerprint."""
    now = binding.noted
    if before.columns != now.columns or had_no_key(before, now.unique) or before.shown != NOTHING_SHOWN:
        return True  # Columns may have been renamed, and renamed back; rows may have changed without a key.
    changed = difference(before, recorded(binding.table), binding.resource, binding.key, _followed(binding))
    return bool(changed.found or changed.rewritten or changed.joined)


def _followed(binding: PostgresBinding) -> Handling | None:
    """Where schemas have the columns' identities, ``PostgresBinding.handling``."""
    return binding.handling if binding.identified else None


def changes_of(session: psycopg.Connection, binding: PostgresBinding, table: Table) -> Difference | None:
    """What changed since ``binding.noted``; None while that is unknown because another session locks the table."""
    key = binding.resource.key if binding.resource.key is not None else table.key
    gone = table_changes.PARTITION_REMOVED if binding.rereads_gone else table_changes.PARTITION_GONE
    changed = difference(binding.noted, recorded(table), binding.resource, key, _followed(binding), gone=gone)
    with asking(f"checking whether partitions of {binding.name} had rows, or lost some"):
        lost = _that_lost_rows(session, binding, changed)
        joined = None if lost is None else _with_joined(session, changed, table.oid, lost)
    if lost is None or joined is None:
        return None
    changed = joined
    if lost:
        names = [store.qualified_name for store in lost]
        told = binding.noted.shown.rewritten
        change = table_changes.REWRITTEN_BY_ALTER if told else table_changes.UNLOGGED_AND_BACK
        changed = changed.with_change(change, names)
    # In a table with a key, a place itself tells that it belongs to another file.
    return changed if key or not changed.rewritten else changed.with_change(table_changes.REWRITTEN)


def _that_lost_rows(session: psycopg.Connection, binding: PostgresBinding, changed: Difference) -> list[Store] | None:
    """The stores of which rows may have gone that the log does not tell; None while one is locked."""
    # The server does not let a table be unlogged that a publication names, and does not log TRUNCATE of a partition.
    noted = binding.noted
    named, shown = (noted.entry or "").startswith("table "), noted.shown
    sure = {
        store: has_lost_none(session, store, noted.since, shown.truncated, shown.filled.get(str(store.oid)))
        for store in changed.rewritten
        if store.joined or not named
    }
    # Of a new partition the log has had rows, or there are none downstream. A TRUNCATE beside its CREATE empties the
    # file that it has, and rows of later transactions do not show that there was none.
    for store in changed.joined:
        if str(store.oid) in shown.partitions:
            filled = shown.filled.get(str(store.oid))
            at_once = filled is None or filled.times == 1
            first = (
                filled.transaction if filled and filled.later and filled.transaction in store.joined.split() else None
            )
            sure[store] = store.file == store.oid and at_once and holds_rows(session, store, first)
    return None if None in sure.values() else [store for store, is_sure in sure.items() if not is_sure]


def _with_joined(
    session: psycopg.Connection, changed: Difference, root: int, lost: Sequence[Store]
) -> Difference | None:
    """The difference with the partitions whose rows the log does not have; None while one is locked."""
    others = [store for store in changed.joined if store not in lost]
    had_rows = {store: had_rows_before_it_joined(session, store, root) for store in others}
    if None in had_rows.values():
        return None
    filled = [store for store, had in had_rows.items() if had]
    parts = [part for store in filled if (part := condition_of(session, store)) is not None]
    if len(parts) < len(filled):
        return None
    found = changed.with_change(table_changes.PARTITION_JOINED, [store.qualified_name for store in filled])
    return found._replace(parts=tuple(parts)) if filled else changed


def why_unfit(
    session: psycopg.Connection, config: EndpointConfig, binding: PostgresBinding, table: Table | None
) -> SourceError | None:
    """Why the log lacks the table's changes, or could not be decoded; None if it has them. Raises psycopg.Error."""
    for failure in log_failures(session, config, binding.resource, table):
        return failure
    assert table is not None
    for _, failure in publication_failures(session, config, [table]):
        return failure
    record = recorded(table)
    if record.entry is None:
        return lacking(session, config, [table], exists=record.publication is not None)
    return kinds_failure(config, record.publication)


def away(failure: SourceError) -> TableAway:
    """A failure as an error that sets only its table aside."""
    return TableAway(failure.code, failure.message, remedy=failure.remedy)


def tell(binding: PostgresBinding, changed: Difference) -> None:
    """Logs a warning that says the changes and their consequence, unless there is none; their names are a field."""
    names, what = [], []
    for change, columns in changed.found:
        if change.consequence > Consequence.NOTHING:
            more = [f"and {len(columns) - NAMED} more"] if len(columns) > NAMED else []
            names.append(change.name)
            what.append(in_words(change.name, ", ".join([*columns[:NAMED], *more])))
    if not what:
        return
    codes = [found.change.code for found in changed.found if found.change.code]
    follows = changed.consequence
    if follows in (Consequence.PART_READ, Consequence.READ_AGAIN) and not binding.key:
        follows = Consequence.EMPTIED
    logger.warning(
        "%s was altered in a way that the log does not fully show: %s; consequence: %s",
        binding.name,
        "; ".join(what),
        follows.text,
        extra={"changes": names, **({"code": codes[0]} if codes else {})},
    )
