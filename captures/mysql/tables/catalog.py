"""Reads tables, columns, keys and the conditions of partitions from information_schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pymysql
from pymysql.constants import ER

from tidemark.captures.mysql.server.session import Session, error_of
from tidemark.captures.mysql.terms.columns import ENGINES_WITHOUT_ROWS, Column, Table, quoted_name, quoted_path
from tidemark.captures.mysql.values.types import key_form

SYSTEM_SCHEMAS = (
    "information_schema",
    "mysql",
    "mysql_innodb_cluster_metadata",
    "ndbinfo",
    "performance_schema",
    "sys",
)


_TABLES = """
    SELECT t.table_schema, t.table_name, t.engine, t.table_rows, t.data_length, t.index_length, t.table_comment
    FROM information_schema.tables t
    WHERE t.table_type = 'BASE TABLE' AND t.engine IS NOT NULL AND {where}
"""
_COLUMNS = """
    SELECT t.table_schema, t.table_name, t.column_name, t.data_type, t.column_type, t.is_nullable,
           t.character_set_name, t.collation_name, t.character_maximum_length, t.numeric_precision, t.numeric_scale,
           t.datetime_precision, t.extra, t.column_comment, t.generation_expression, t.ordinal_position
    FROM information_schema.columns t WHERE {where}
"""
_UNIQUE_INDEXES = """
    SELECT t.table_schema, t.table_name, t.index_name, t.column_name, t.nullable, t.sub_part, t.index_type,
           t.seq_in_index
    FROM information_schema.statistics t WHERE t.non_unique = 0 AND {where}
"""
_CHECKS = """
    SELECT t.constraint_schema, t.table_name, t.check_clause
    FROM information_schema.check_constraints t WHERE t.check_clause LIKE 'json_valid(%%' AND {where}
"""

_LABEL = re.compile(r"(x?)'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}
_JSON_CHECK = re.compile(r"json_valid\(`((?:[^`]|``)+)`\)", re.IGNORECASE)

HASH_COLUMN = "DB_ROW_HASH_"
"""The prefix of the names of MariaDB's hidden columns."""

_STILL_LOCKED = {ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.QUERY_INTERRUPTED}

Path = tuple[str, str]


AT_ONCE = 64
"""The most tables that a query names."""

SHARE = 4
"""If at least one table in so many of a schema is wanted, all of them are read at once."""


def read_tables(session: Session, paths: Sequence[Path] | None = None) -> list[Table]:
    """The tables that can be captured, with their columns, by schema and name: those of ``paths``, spelled as the
    server compares names; all if it is None. Raises pymysql.Error.
    """
    if paths is None:
        return _read(session, None)
    by_schema: dict[str, set[str]] = {}
    for path in paths:
        schema, name = session.folded(path)
        by_schema.setdefault(schema, set()).add(name)
    return [table for schema in sorted(by_schema) for table in _wanted(session, schema, sorted(by_schema[schema]))]


def _wanted(session: Session, schema: str, names: Sequence[str]) -> Iterator[Table]:
    """Those of one schema, by name."""
    groups: list[_Asked] = [(schema, names[first : first + AT_ONCE]) for first in range(0, len(names), AT_ONCE)]
    if len(groups) > 1:
        count = session.value("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s", schema)
        if len(names) * SHARE >= int(count):
            groups = [(schema, None)]
    read = [table for group in groups for table in _read(session, group)]
    found = {session.folded(table.path): table for table in read}
    for name in names:
        if (table := found.get((schema, name))) is not None:
            yield from [table] if table.key else _settled(session, table)


def await_statements(session: Session, paths: Iterable[Path]) -> None:
    """Waits until the catalog shows all that the log has of these tables.

    MySQL writes a statement to its log before its catalog has it, and holds the table's lock until then. SHOW CREATE
    TABLE waits for that lock, but not for statements that only wait for it themselves. MariaDB's catalog has it before.

    Raises:
        pymysql.Error: The lock was not free within ``lock_wait_timeout``, or somebody ended the wait.
    """
    if session.mariadb:
        return
    for path in paths:
        try:
            session.rows(f"SHOW CREATE TABLE {quoted_path(path)}")
        except pymysql.Error as error:
            if error_of(error)[0] in _STILL_LOCKED:
                raise
            # Whatever else is wrong with it, or with the connection, the queries for its columns show.


def _settled(session: Session, table: Table) -> list[Table]:
    """A table that seems to have no key, as it is.

    Each query shows the catalog of its moment. A table that is created again between two queries looks like a mixture
    of both. Chunks and the log disagree with a wrong mixture, and the table is read again. But a table that seems to
    have no key would be refused at once: it is read until two reads agree.
    """
    asked = table.schema, [table.name]
    before, found = None, [table]
    while (seen := [(table.columns, table.key) for table in found if not table.key]) and seen != before:
        before, found = seen, _read(session, asked)
    return found


def is_versioned(session: Session, path: Path) -> bool:
    """Whether there is such a table and it is system-versioned, which MariaDB lists as another type of table."""
    found = session.rows(
        "SELECT 1 FROM information_schema.tables "
        "WHERE table_type = 'SYSTEM VERSIONED' AND table_schema = %s AND table_name = %s",
        *path,
    )
    return bool(found)


_Asked = tuple[str, Sequence[str] | None] | None
"""The tables that are asked for: some of a schema by their names, all of a schema, or all of the server."""


def _read(session: Session, asked: _Asked) -> list[Table]:
    transactional = {
        str(engine).lower(): answer == "YES"
        for engine, answer in session.rows("SELECT engine, transactions FROM information_schema.engines")
    }
    columns = _columns(session, asked)
    indexes: dict[Path, dict[str, list[tuple[str | None, str, Any]]]] = {}
    hashed: dict[Path, set[str]] = {}
    for schema, name, index, column, nullable, part, kind, _ in _in_order(_ask(session, _UNIQUE_INDEXES, asked)):
        indexes.setdefault((schema, name), {}).setdefault(index, []).append((column, nullable, part))
        if kind == "HASH":
            hashed.setdefault((schema, name), set()).add(index)
    tables = []
    for schema, name, engine, rows, data, index_bytes, comment in sorted(
        _ask(session, _TABLES, asked), key=itemgetter(0, 1)
    ):
        if engine.upper() in ENGINES_WITHOUT_ROWS:
            continue
        table_columns = columns.get((schema, name), ())
        if session.mariadb and engine.upper() != "MEMORY":
            # MariaDB adds a column at the end of a table for each unique index over long values.
            for number, _ in enumerate(hashed.get((schema, name), ()), 1):
                table_columns += (Column(f"{HASH_COLUMN}{number}", "bigint", unsigned=True, hidden=True),)
        index, key = _key(table_columns, indexes.get((schema, name), {}))
        tables.append(
            Table(
                schema=schema,
                name=name,
                columns=table_columns,
                key=key,
                key_index=index,
                key_is_fallback=bool(key) and index != "PRIMARY",
                engine=engine,
                transactional=transactional.get(engine.lower(), False),
                description=comment or "",
                estimated_rows=None if rows is None else int(rows),
                size_bytes=int(data or 0) + int(index_bytes or 0),
            )
        )
    return tables


def _in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Columns of a table or of an index, which the server numbers. It need not keep an order within a UNION."""
    return sorted(rows, key=lambda row: int(row[-1]))


def _ask(session: Session, query: str, asked: _Asked) -> Iterator[tuple[Any, ...]]:
    column = "t.constraint_schema" if query is _CHECKS else "t.table_schema"
    if asked is None:
        marks = ", ".join(["%s"] * len(SYSTEM_SCHEMAS))
        yield from session.rows(query.format(where=f"{column} NOT IN ({marks})"), *SYSTEM_SCHEMAS)
        return
    schema, names = asked
    if names is None:
        rows = session.rows(query.format(where=f"{column} = %s"), schema)
    elif session.has_dictionary:
        marks = ", ".join(["%s"] * len(names))
        rows = session.rows(query.format(where=f"{column} = %s AND t.table_name IN ({marks})"), schema, *names)
    else:
        # Only for constants does the server open no other tables.
        one = query.format(where=f"{column} = %s AND t.table_name = %s")
        rows = session.rows(
            " UNION ALL ".join([one] * len(names)), *(part for name in names for part in (schema, name))
        )
    wanted = None if names is None else {session.folded((schema, name)) for name in names}
    for row in rows:
        # information_schema ignores case in comparisons, even if the server's names are case-sensitive.
        path = session.folded((row[0], row[1]))
        if path in wanted if wanted is not None else path[0] == session.folded((schema, ""))[0]:
            yield row


def _columns(session: Session, asked: _Asked) -> dict[Path, tuple[Column, ...]]:
    json = set()
    if session.mariadb:
        for schema, name, clause in _ask(session, _CHECKS, asked):
            if match := _JSON_CHECK.fullmatch(clause):
                json.add((schema, name, match[1].replace("``", "`").lower()))
    found: dict[Path, list[Column]] = {}
    for schema, name, *row, _ in _in_order(_ask(session, _COLUMNS, asked)):
        column = _column(row)
        if column.data_type == "longtext" and (schema, name, column.name.lower()) in json:
            column = replace(column, json=True)
        found.setdefault((schema, name), []).append(column)
    return {table: tuple(columns) for table, columns in found.items()}


def _column(row: Sequence[Any]) -> Column:
    name, data_type, column_type, null, charset, collation, length, precision, scale, fraction, extra, comment, made = (
        row
    )
    data_type = data_type.lower()
    attributes = column_type.lower().rpartition(")")[2].split() if data_type not in ("enum", "set") else []
    is_bit = data_type == "bit"
    is_number = precision is not None and not is_bit
    if data_type == "tinyint":
        width = re.match(r"tinyint\((\d+)\)", column_type.lower())
        length = int(width[1]) if width else None
    elif is_bit:
        length = precision
    elif data_type == "year":
        length = 2 if column_type.lower().startswith("year(2)") else None
    is_text = charset is not None and data_type not in ("json",)
    extra = extra.upper()
    return Column(
        name=name,
        data_type=data_type,
        nullable=null == "YES",
        unsigned=is_number and ("unsigned" in attributes or "unsigned" in column_type.lower().split()),
        charset=charset if is_text else None,
        length=None if length is None else int(length),
        precision=int(precision) if precision is not None and is_number else None,
        scale=int(scale) if scale is not None and is_number else None,
        fraction=int(fraction or 0),
        labels=_labels(column_type) if data_type in ("enum", "set") else (),
        json=data_type == "json",
        generated="virtual" if "VIRTUAL GENERATED" in extra else "stored" if "STORED GENERATED" in extra else "",
        invisible="INVISIBLE" in extra,
        zerofill="zerofill" in attributes,
        expression=made or "",
        collation=collation if is_text else None,
        description=comment or "",
        counts_up="AUTO_INCREMENT" in extra,
    )


def _labels(column_type: str) -> tuple[str, ...]:
    """The labels of ``enum('a','it''s',x'ff')``, with the escapes that the server prints (append_unescaped), and in
    hexadecimal what MySQL cannot print.
    """

    def character(match: re.Match[str]) -> str:
        return "'" if match[1] is None else _ESCAPES.get(match[1], match[1])

    return tuple(
        bytes.fromhex(label).decode("utf-8", "replace") if coded else _ESCAPED.sub(character, label)
        for coded, label in _LABEL.findall(column_type)
    )


def _key(
    columns: Sequence[Column], indexes: dict[str, list[tuple[str | None, str, Any]]]
) -> tuple[str, tuple[str, ...]]:
    """Name and columns of the index that is the key; empty if no index can be."""
    by_name = {column.name.lower(): column for column in columns}
    for index in sorted(indexes, key=lambda name: (name != "PRIMARY", name)):
        names = []
        for column_name, nullable, part in indexes[index]:
            column = by_name.get((column_name or "").lower())  # None: the index is of an expression
            if column is None or nullable == "YES" or part is not None or key_form(column) is None:
                break
            names.append(column.name)
        else:
            return index, tuple(names)
    return "", ()


_PARTITIONS = """
    SELECT DISTINCT t.partition_name, t.partition_method, t.partition_expression, t.partition_description,
           t.partition_ordinal_position
    FROM information_schema.partitions t
    WHERE t.table_schema = %s AND t.table_name = %s AND t.partition_name IS NOT NULL
    ORDER BY t.partition_ordinal_position
"""

_COLUMN = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_SIGNED, _UNSIGNED = (rf"{sign}\d+|'[ -&(->@-\[\]-~]*'" for sign in ("-?", ""))
"""Values that the catalog shows as they are: it has negative numbers for the greatest ones of an unsigned column, and
question marks for characters that it cannot show."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of a table whose rows have a condition, by their definitions in the catalog.

    The log names a partition and not what it is for. Its definition is known at a place of the log if the catalog was
    read when the log ended before that place: each statement after it that alters the table has it read again.

    Attributes:
        conditions: By name, in SQL, for ``Range.where``.
        until: The log ended here after the catalog was read.
    """

    conditions: Mapping[str, str] = field(default_factory=dict)
    until: int = 0

    def condition(self, name: str, position: int) -> str:
        """The condition of a partition at a place of the log; empty if that is not known."""
        named = {known.lower(): condition for known, condition in self.conditions.items()}
        return named.get(name.lower(), "") if position > self.until else ""


def conditions(session: Session, table: Table) -> dict[str, str]:
    """The conditions of the partitions by range or list of one column. Raises pymysql.Error."""
    rows = session.rows(_PARTITIONS, *table.path)
    columns = {column.name.lower(): column for column in table.columns}
    match = _COLUMN.fullmatch(str(rows[0][2])) if rows else None
    column = columns.get((match[1] or match[2]).replace("``", "`").lower()) if match is not None else None
    if column is None:
        return {}
    bounds = [(str(name), str(bound)) for name, _, _, bound, _ in rows]
    match str(rows[0][1]).removesuffix(" COLUMNS"):
        case "RANGE":
            return dict(_of_ranges(column, bounds))
        case "LIST":
            return dict(_of_lists(column, bounds))
        case _:
            return {}


def _of_ranges(column: Column, bounds: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    name, value = quoted_name(column.name), re.compile(_UNSIGNED if column.unsigned else _SIGNED)
    for (_, begin), (partition, end) in pairwise([("", ""), *bounds]):
        limits = [f"{name} >= {begin}"] if begin else []
        limits += [f"{name} < {end}"] if end != "MAXVALUE" else []
        if all(bound in ("", "MAXVALUE") or value.fullmatch(bound) for bound in (begin, end)):
            condition = " AND ".join(limits) or "TRUE"
            yield partition, condition if begin else f"{condition} OR {name} IS NULL"


def _of_lists(column: Column, bounds: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    name, value = quoted_name(column.name), _UNSIGNED if column.unsigned else _SIGNED
    for partition, listed in bounds:
        if re.fullmatch(rf"(?:{value}|NULL)(?:,(?:{value}|NULL))*", listed):
            yield partition, f"{name} IN ({listed}){f' OR {name} IS NULL' if 'NULL' in listed else ''}"
