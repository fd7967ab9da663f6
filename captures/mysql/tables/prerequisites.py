"""The prerequisites of a capture. All of them are checked, and all failures are reported at once."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Sequence

import pymysql
from pymysql.constants import ER

from tidemark.captures.mysql.rows.chunk_decoder import unknown_type
from tidemark.captures.mysql.server.server_prerequisites import server_failures
from tidemark.captures.mysql.server.session import LOCK_SECONDS, TOGETHER_LOCK_SECONDS, Session, error_of, query_failure
from tidemark.captures.mysql.tables.bindings import captured_columns
from tidemark.captures.mysql.tables.catalog import AT_ONCE, Path, is_versioned
from tidemark.captures.mysql.terms.columns import Column, Table, quoted_path
from tidemark.captures.mysql.terms.config import EndpointConfig, ResourceConfig
from tidemark.captures.mysql.values.types import clampable, form, hashable, key_form
from tidemark.captures.server.option_failures import misspelt, option_failures, warn_of_dropped
from tidemark.captures.server.unmet import Unmet
from tidemark.captures.tables.bad_values import Policies, quarantine_failures
from tidemark.captures.tables.suggested_entries import excluding
from tidemark.captures.tables.table_binding import captured_as
from tidemark.captures.tables.truncation import Truncation
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

UNREADABLE = "TM-MY-008"
"""The user may not read a table, so no other check of it is possible."""

_CASCADE = re.compile(
    r"^ *CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY .* ON (?:DELETE|UPDATE) (?:CASCADE|SET)\b", re.MULTILINE
)


def unmet(
    session: Session,
    config: EndpointConfig,
    resources: Sequence[ResourceConfig],
    tables: Sequence[Table | None],
) -> Unmet:
    """Every prerequisite that is not met; ``tables`` is parallel to ``resources``, None where a table is missing.

    Raises pymysql.Error.
    """
    policies = [(".".join(resource.path), resource.on_bad_value) for resource in resources]
    seen = seen_readable(session, [table for table in tables if table is not None])
    return Unmet(
        source=[
            *quarantine_failures("TM-MY-023", config.on_bad_value, policies),
            *server_failures(session, config, resources),
        ],
        tables=[
            list(_table_failures(session, config, resource, table, seen))
            for resource, table in zip(resources, tables, strict=True)
        ],
    )


def _table_failures(
    session: Session, config: EndpointConfig, resource: ResourceConfig, table: Table | None, seen: Collection[Path]
) -> Iterator[SourceError]:
    """Why one table cannot be captured. Warns of cascades. Raises pymysql.Error."""
    unreadable = False
    for failure in definition_failures(session, config, resource, table, seen, only_malformed=False):
        unreadable |= failure.code == UNREADABLE
        yield failure
    if table is not None:
        names = [column.name for column in table.columns]
        policies = Policies.of(config.on_bad_value, resource.on_bad_value).columns
        for option, listed in (("exclude", resource.exclude), ("hash", resource.hash), ("on_bad_value", policies)):
            warn_of_dropped(table.name_in_full, option, listed, names)
    if table is not None and not unreadable and not _warns_of_cascades(session, table, table.name_in_full):
        yield _unreadable(session, config, table, "may read the columns of {}, but not its definition")


def versioned(path: Sequence[str]) -> SourceError:
    """A table is system-versioned."""
    return SourceError(
        "TM-MY-007",
        f"{'.'.join(path)} is system-versioned: the log has its history as rows",
        remedy=f"Leave it out, or run: ALTER TABLE {quoted_path(path)} DROP SYSTEM VERSIONING;",
    )


def definition_failures(
    session: Session,
    config: EndpointConfig,
    resource: ResourceConfig,
    table: Table | None,
    seen: Collection[Path] = (),
    *,
    only_malformed: bool = True,
) -> Iterator[SourceError]:
    """Why one table cannot be captured. Raises pymysql.Error.

    Args:
        seen: As ``seen_readable`` found: the others are asked for.
        only_malformed: Of its ``where``, which concerns no change, only that it is no condition at all. What else is
            wrong with it, a chunk says.
    """
    name = resource.name
    if table is None:
        if is_versioned(session, (resource.schema_name, resource.table)):
            yield versioned(resource.path)
            return
        yield SourceError(
            "TM-MY-007", f"there is no table {name}, or user {config.user} may not see it, or it cannot be captured"
        )
        return
    columns = {column.name: column for column in table.columns}
    if "_meta" in columns.keys() - set(resource.exclude):
        yield SourceError("TM-MY-017", f"{name} has a column named _meta")
    captured = captured_as(captured_columns(table.columns), resource.exclude)
    if not captured:
        yield _wrong(name, "every column is excluded")
    for column in captured:
        if form(column) is None:
            yield unknown_type(name, column)
    key = resource.key if resource.key is not None else table.key
    yield from option_failures(
        config,
        resource,
        columns,
        key,
        {column.name for column in captured if clampable(column)},
        code="TM-MY-022",
        wrong_config="TM-MY-023",
        unknown=misspelt,
    )
    if unfit := [part for part in resource.hash if part in columns and not hashable(columns[part])]:
        remedy = f"Leave it out with `{excluding(*unfit)}`: the log may have partial updates instead of its value."
        yield _wrong(name, "the column {} of type json cannot be hashed", *unfit, remedy=remedy)
    if columns.keys() >= set(key):
        yield from _key_failures(config, resource, table, [columns[part] for part in key])
    if table.path not in seen and not is_readable(session, table):
        yield _unreadable(session, config, table, "may not read {}, or not all of its columns")
    elif resource.where:
        failure = condition_failure(session, table, resource.where, whose="where", only_malformed=only_malformed)
        yield from [] if failure is None else [failure]


def _unreadable(session: Session, config: EndpointConfig, table: Table, what: str) -> SourceError:
    return SourceError(
        UNREADABLE,
        f"user {config.user} {what.format(table.name_in_full)}",
        remedy=f"Run: GRANT SELECT ON {table.in_sql} TO {session.account()};",
    )


def _warns_of_cascades(session: Session, table: Table, name: str) -> bool:
    """False if the user may not see the table's definition."""
    # Since MySQL 9.6 the server carries out foreign keys itself and logs it, unless InnoDB is told to do it.
    # information_schema hides foreign keys from users who may only read.
    try:
        definition = str(session.rows(f"SHOW CREATE TABLE {table.in_sql}")[0][1])
    except pymysql.Error as error:
        if error_of(error)[0] != ER.TABLEACCESS_DENIED_ERROR:
            raise
        return False
    if (cascades := _CASCADE.findall(definition)) and session.variable("innodb_native_foreign_keys") != "OFF":
        logger.warning(
            "%s: the binary log does not have what its foreign keys %s delete or change (ON DELETE, ON UPDATE), so "
            "the capture misses it: let the application or a trigger on the parent table do it",
            name,
            ", ".join(cascades),
        )
    return True


def _wrong(name: str, reason: str, *columns: str, remedy: str | None = None) -> SourceError:
    """The error for options that do not fit a table; ``reason`` has a place for the names of columns."""
    return SourceError("TM-MY-022", f"{name}: {reason.format(', '.join(columns))}", remedy=remedy)


def _key_failures(
    config: EndpointConfig, resource: ResourceConfig, table: Table, key: Sequence[Column]
) -> Iterator[SourceError]:
    name = resource.name
    if nullable := [column.name for column in key if column.nullable]:
        yield _wrong(name, "the key column {} may be NULL", *nullable)
    if unfit := [column.name for column in key if key_form(column) is None]:
        yield _wrong(name, "the type of column {} cannot be part of a key", *unfit)
    if not key and resource.scan == "key":
        reason = "has no primary key and no unique index over columns that are not null"
        yield SourceError("TM-MY-009", f"{name} {reason}")
    if not key and resource.scan == "snapshot":
        yield from _snapshot_failures(config, table, name)


def _snapshot_failures(config: EndpointConfig, table: Table, name: str) -> Iterator[SourceError]:
    if not table.transactional:
        remedy = "Add a primary key, or capture only its log with `scan: none`."
        yield _wrong(name, "engine {} has no snapshots", table.engine, remedy=remedy)
    if config.truncation is Truncation.IGNORE:
        reason = f"a scan in one snapshot begins with a TRUNCATE, but `truncate: {config.truncate}` leaves it out"
        remedy = (
            "Use `truncate: emit` under tidemark's runtime, or `truncate: backfill` under one that knows "
            "backfillBegin, add a primary key, or capture only the table's log with `scan: none`."
        )
        yield _wrong(name, reason, remedy=remedy)


def is_readable(session: Session, table: Table) -> bool:
    """Raises pymysql.Error for any other reason why it cannot be read."""
    try:
        session.rows(f"SELECT * FROM {table.in_sql} LIMIT 0")
    except pymysql.Error as error:
        if error_of(error)[0] not in (ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR):
            raise
        return False
    return True


def seen_readable(session: Session, tables: Sequence[Table]) -> set[Path]:
    """The paths of tables that are readable, as far as many together tell: there may be thousands.

    Raises pymysql.Error if the connection is lost.
    """
    seen: set[Path] = set()
    # A table that is locked must not keep the locks of all others.
    session.rows(f"SET SESSION lock_wait_timeout = {TOGETHER_LOCK_SECONDS}")
    for first in range(0, len(tables), AT_ONCE):
        group = tables[first : first + AT_ONCE]
        if _are_readable(session, group):
            seen.update(table.path for table in group)
    session.rows(f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
    return seen


def _are_readable(session: Session, tables: Sequence[Table]) -> bool:
    """False if that of one of them is not known: asked by itself, each tells."""
    asked = (f"SELECT 1 FROM (SELECT * FROM {table.in_sql} LIMIT 0) t" for table in tables)
    try:
        session.rows(" UNION ALL ".join(asked))
    except pymysql.Error:
        return False
    return True


END_OF_CONDITION = "\n)"
"""A comment at the end of a condition must not take the rest of the statement with it."""

_PASSING = {ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.QUERY_INTERRUPTED}

_REMEDY = "Correct it: it must be one whole SQL condition, as it could stand by itself after WHERE."


def condition_failure(
    session: Session, table: Table, condition: str, *, whose: str, only_malformed: bool = False
) -> SourceError | None:
    """Why chunks cannot be limited by a condition; None where they can. Reads no row. Raises pymysql.Error.

    Args:
        whose: Where the condition stands, for the message.
        only_malformed: What something else than the condition may have caused, as a column that is gone, is no failure.
    """
    try:
        # ``n > 4) or (1 = 1`` fits the parentheses that chunks put around it, and is no condition.
        session.rows("PREPARE tidemark_condition FROM %s", f"SELECT 1 FROM {table.in_sql} WHERE {condition}")
        session.rows("DEALLOCATE PREPARE tidemark_condition")
        # ``n > 4 LIMIT 1`` is none either, though it may stand after WHERE.
        session.rows(f"SELECT 1 FROM {table.in_sql} WHERE ({condition}{END_OF_CONDITION} LIMIT 0")
    except pymysql.Error as error:
        number, reason = error_of(error)
        if number in _PASSING or query_failure(error, "").code == "TM-MY-020":
            raise
        if only_malformed and number != ER.PARSE_ERROR:
            return None
        return SourceError("TM-MY-022", f"{table.name_in_full}: {whose} is no condition: {reason}", remedy=_REMEDY)
    return None
