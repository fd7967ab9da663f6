"""Tables as the log shows them: the columns of their rows, from the log itself or from the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.captures.contract.errors import UnfitValues
from tidemark.captures.mysql.rows import table_map
from tidemark.captures.mysql.rows.log_decoder import RowDecoder, UnreadableRows
from tidemark.captures.mysql.rows.row_images import DecodedTable
from tidemark.captures.mysql.rows.table_map import LoggedColumn, are_named, read_table_map, read_table_name
from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.captures.mysql.tables.captured_tables import CapturedTables
from tidemark.captures.mysql.tables.catalog import HASH_COLUMN
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values.charsets import RecodeOf
from tidemark.captures.mysql.values.types import Form, form
from tidemark.captures.rows.captured_line import origin_members
from tidemark.captures.tables.suggested_entries import excluding
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject


@dataclass(slots=True)
class LoggedTable:
    """A captured table, as the rows after one TABLE_MAP event have it.

    Attributes:
        decoder: None when the rows' columns are not known.
        differs: The columns are not those that were known.
        rekeyed: The key, or a type in it, is not the one that was known.
        unfit: Why the table cannot be captured as it is now; None if it can.
        origin: The JSON members ``"schema":…,"table":…`` of ``_meta.source``.
        new_schema: Set when the columns are not the ones whose schema was announced last.
        lines_left: So many batches with rows of it are to be lines, not columns.
        as_of: Where the catalog was read from which the columns are, if the log was not read to there: rows before it
            may be others. 0 where they cannot.
    """

    binding: int
    decoder: RowDecoder | None
    named: bool
    origin: str
    new_schema: JsonObject | None = None
    unfit: SourceError | None = None
    differs: bool = False
    rekeyed: bool = False
    as_of: int = 0
    lines_left: int = 0
    # Of the present transaction: its number, and where its keys are recorded.
    transaction: int = -1
    touched: TouchedKeys | None = None
    incomplete: list[Key] = field(default_factory=list)

    @property
    def fits_columns(self) -> bool:
        """Rows of the present transaction may become columns."""
        decoder = self.decoder
        return decoder is not None and self.touched is None and not self.as_of and decoder.cells is not None


_EXCLUDE = "Leave the column out with `{}`."


def logged_table(body: bytes, tables: CapturedTables, *, mariadb: bool) -> LoggedTable | None:
    """The captured table that a TABLE_MAP event names; None when no binding captures it.

    Columns come from the event where it names them, otherwise from what is known of the table, and the catalog is read
    again when those are not the columns of the event. Raises SourceError.
    """
    try:
        name = read_table_name(body)
    except (ValueError, LookupError):
        raise SourceError("TM-MY-044", "a malformed TABLE_MAP event") from None
    bound = tables.bound(*name)
    if bound is None:
        return None
    origin = origin_members(*name).decode("latin-1")
    try:
        logged = read_table_map(body, tables.charsets.of_collation, mariadb=mariadb)
    except (ValueError, LookupError):
        why = UnreadableRows("TM-MY-058", f"{'.'.join(name)}: the columns of its rows in the log cannot be read")
        return LoggedTable(bound.binding, None, False, origin, unfit=why)
    identity, before = bound.identity, bound.table.columns
    try:
        bound, known = _columns(logged, bound, tables)
        if known is None or not set(bound.key) <= {column.name for column in known}:
            return LoggedTable(bound.binding, None, are_named(logged), origin)
        _check_texts(known, bound, tables, ".".join(name), named=are_named(logged))
    except _Unfit as unfit:
        return LoggedTable(bound.binding, None, are_named(logged), origin, unfit=unfit.why)
    bound, new_schema = tables.adopt(bound.binding, known)
    names = [column.name for column in known]
    places = tuple(names.index(key) for key in bound.key)
    decoded = DecodedTable(
        tuple(map(_with_fraction, logged, known)),
        tuple(_in_documents(column, bound) for column in known),
        places,
        tuple(known[place] for place in places),
        bound.tinyint1_as_bool,
        tables.charsets.recode,
    )
    decoder = RowDecoder(bound.binding, decoded, ".".join(name))
    as_of = bound.as_of if not are_named(logged) or any(column.log_says_less for column in known) else 0
    return LoggedTable(
        bound.binding,
        decoder,
        are_named(logged),
        origin,
        new_schema,
        differs=bound.table.columns != before,
        rekeyed=bound.identity != identity,
        as_of=as_of,
    )


def _with_fraction(logged: LoggedColumn, column: Column) -> LoggedColumn:
    """The column with the digits of a second of MariaDB's old format, which the event does not state."""
    return replace(logged, scale=column.fraction) if logged.type in _WITHOUT_FRACTION and column.fraction else logged


class _Unfit(Exception):
    """The table cannot be captured as it is now."""

    def __init__(self, why: SourceError) -> None:
        super().__init__(why)
        self.why = why


def _columns(
    logged: Sequence[LoggedColumn], bound: BoundTable, tables: CapturedTables
) -> tuple[BoundTable, tuple[Column, ...] | None]:
    """The table, and its columns in the order of the log's rows; None when they cannot be told.

    Raises SourceError when the server cannot be asked, _Unfit.
    """
    columns = match_columns(logged, bound.table.columns, tables.charsets.recode)
    if columns is None or any(column is None for column in columns):
        fresh = tables.refresh(bound.binding)
        if isinstance(fresh, SourceError):
            raise _Unfit(fresh)
        bound, columns = fresh, match_columns(logged, fresh.table.columns, tables.charsets.recode)
    if columns is None:
        return bound, None
    known = (
        _of_own_type(here, bound, tables) or column or _gone(here, bound, tables)
        for here, column in zip(logged, columns, strict=True)
    )
    return bound, tuple(known)


def _of_own_type(logged: LoggedColumn, bound: BoundTable, tables: CapturedTables) -> Column | None:
    """The column, if a statement gave it one of MariaDB's own types; the catalog may be ahead of the log."""
    own = bound.definitions.own.get(logged.name or "")
    return _as_logged(logged, own, tables.charsets.recode) if own is not None and fits(logged, own) else None


def _gone(logged: LoggedColumn, bound: BoundTable, tables: CapturedTables) -> Column:
    """A column that the table no longer has."""
    before = bound.past.get(logged.name or "")
    if before is not None and fits(logged, before):
        return _as_logged(logged, before, tables.charsets.recode)
    return described(logged, tables.charsets.recode)


def _in_documents(column: Column, bound: BoundTable) -> Column | None:
    if column.name not in bound.emitted:
        return None
    return replace(
        column,
        salt=bound.salt if column.name in bound.resource.hash else b"",
        on_bad_value=bound.policies.column(column.name, in_key=column.name in bound.key),
    )


def _check_texts(
    columns: Sequence[Column], bound: BoundTable, tables: CapturedTables, table: str, *, named: bool
) -> None:
    """Checks that the texts of columns are known. Raises SourceError when the server cannot be asked, _Unfit.

    Labels come from the catalog where the log has none, and that shows characters beyond U+FFFF as ``?``.
    """
    for column in columns:
        if column.name not in bound.emitted or column.charset is None:
            continue
        try:
            tables.charsets.recode(column.charset)
        except LookupError:
            reason = (
                f"column {column.name} of {table} has the character set {column.charset} in the log, which the server "
                "does not have"
            )
            raise _Unfit(UnfitValues("TM-MY-031", reason, remedy=_EXCLUDE.format(excluding(column.name)))) from None
        if not named and any(map(column.may_hide, column.labels)):
            reason = f"column {column.name} of {table} may have labels that the catalog cannot show"
            raise _Unfit(UnfitValues("TM-MY-032", reason))


def match_columns(
    logged: Sequence[LoggedColumn], catalog: Sequence[Column], recode_of: RecodeOf
) -> tuple[Column | None, ...] | None:
    """The catalog's columns in the order of the log's rows, with what the event says more exactly; None when they
    cannot be told, and in the place of one that the event names and the catalog does not have so.
    """
    if not are_named(logged):
        if len(logged) != len(catalog):
            return None
        if not all(map(fits, logged, catalog)):
            return None
        return tuple(map(_nullable_as_logged, logged, catalog))
    by_name = {column.name: column for column in catalog}
    found: list[Column | None] = []
    for column in logged:
        known = by_name.get(column.name or "")
        found.append(_as_logged(column, known, recode_of) if known is not None and fits(column, known) else None)
    return tuple(found)


def _as_logged(logged: LoggedColumn, column: Column, recode_of: RecodeOf) -> Column:
    column = _nullable_as_logged(logged, column)
    changed: dict[str, object] = {}
    if logged.unsigned is not None and logged.type != table_map.YEAR and logged.unsigned != column.unsigned:
        changed["unsigned"] = logged.unsigned
    if logged.charset and column.charset is not None and not _same_charset(logged.charset, column.charset):
        changed["charset"] = logged.charset
    if (
        logged.labels is not None
        and (labels := _labels(logged, logged.charset or column.charset, recode_of)) != column.labels
    ):
        changed["labels"] = labels
    return replace(column, **changed) if changed else column  # type: ignore[arg-type]


def _nullable_as_logged(logged: LoggedColumn, column: Column) -> Column:
    """The column as nullable as in the log: rows from before it became NOT NULL may have NULL in it."""
    return column if column.hidden or logged.nullable == column.nullable else replace(column, nullable=logged.nullable)


def _labels(logged: LoggedColumn, charset: str | None, recode_of: RecodeOf) -> tuple[str, ...]:
    try:
        recode = recode_of(charset or "utf8mb4") or str
        texts = (recode(label.decode("latin-1")) for label in logged.labels or ())
        return tuple(text.encode("latin-1").decode() for text in texts)
    except (ValueError, LookupError):
        reason = f"column {logged.name}: its labels are not texts in {charset}"
        raise _Unfit(UnfitValues("TM-MY-031", reason, remedy=_EXCLUDE.format(excluding(logged.name or "")))) from None


def _same_charset(one: str, other: str) -> bool:
    return one == other or {one, other} <= {"utf8", "utf8mb3"}


_PLAIN = {
    table_map.TINY: "tinyint",
    table_map.SHORT: "smallint",
    table_map.INT24: "mediumint",
    table_map.LONG: "int",
    table_map.LONGLONG: "bigint",
    table_map.FLOAT: "float",
    table_map.DOUBLE: "double",
    table_map.YEAR: "year",
    table_map.DATE: "date",
    table_map.NEWDATE: "date",
    table_map.TIME: "time",
    table_map.DATETIME: "datetime",
    table_map.TIMESTAMP: "timestamp",
    table_map.JSON: "json",
    table_map.VECTOR: "vector",
    table_map.ENUM: "enum",
    table_map.SET: "set",
}
_FRACTIONS = {table_map.TIME2: "time", table_map.DATETIME2: "datetime", table_map.TIMESTAMP2: "timestamp"}
_WITHOUT_FRACTION = frozenset((table_map.TIME, table_map.DATETIME, table_map.TIMESTAMP))
_FIXED = {"uuid": 16, "inet6": 16, "inet4": 4}
_VECTOR_ITEM = 4
"""Bytes of a vector's number."""

_BLOBS = {
    1: ("tinyblob", "tinytext"),
    2: ("blob", "text"),
    3: ("mediumblob", "mediumtext"),
    4: ("longblob", "longtext"),
}


def fits(logged: LoggedColumn, column: Column) -> bool:
    """Whether a column of the catalog can be this column of the log."""
    kind, name = logged.type, column.data_type
    if kind in _PLAIN:
        return name == _PLAIN[kind]
    if kind in _FRACTIONS:
        return name == _FRACTIONS[kind] and logged.scale == column.fraction
    match kind:
        case table_map.NEWDECIMAL:
            return name == "decimal" and (logged.size, logged.scale) == (column.precision, column.scale or 0)
        case table_map.BIT:
            return name == "bit" and logged.size == column.length
        case table_map.GEOMETRY:
            return form(column) is Form.GEOMETRY
        case table_map.STRING:
            if name in _FIXED:
                return logged.size == _FIXED[name]
            return name == "char" or (name == "binary" and logged.size == column.length)
        case table_map.VARCHAR | table_map.VAR_STRING | table_map.VARCHAR_COMPRESSED:
            # MariaDB's vectors of up to 65,532 bytes are in the log as varbinary.
            return name in ("varchar", "varbinary") or (name == "vector" and not logged.size % _VECTOR_ITEM)
        case table_map.BLOB | table_map.BLOB_COMPRESSED:
            # MariaDB's vectors are blobs of two bytes of length in some versions.
            known = name in _BLOBS.get(logged.size, ()) or name in ("json", "vector")
            return known or form(column) is Form.GEOMETRY
        case _:
            return False


def described(logged: LoggedColumn, recode_of: RecodeOf) -> Column:
    """A column that only the log knows, as far as the event describes it."""
    kind = logged.type
    text = bool(logged.charset) and logged.charset != "binary"
    name = {
        **_PLAIN,
        **_FRACTIONS,
        table_map.NEWDECIMAL: "decimal",
        table_map.BIT: "bit",
        table_map.GEOMETRY: "geometry",
        table_map.STRING: "char" if text else "binary",
        table_map.VARCHAR: "varchar" if text else "varbinary",
        table_map.VARCHAR_COMPRESSED: "varchar" if text else "varbinary",
        table_map.BLOB: _BLOBS.get(logged.size, ("longblob", "longtext"))[text],
        table_map.BLOB_COMPRESSED: _BLOBS.get(logged.size, ("longblob", "longtext"))[text],
    }.get(kind, "unknown")
    return Column(
        name=logged.name or "",
        data_type=name,
        nullable=True,
        unsigned=bool(logged.unsigned),
        charset=logged.charset if text else None,
        length=logged.size if kind in (table_map.BIT, table_map.STRING, table_map.VARCHAR) else None,
        precision=logged.size if kind == table_map.NEWDECIMAL else None,
        scale=logged.scale if kind == table_map.NEWDECIMAL else None,
        fraction=logged.scale if kind in _FRACTIONS else 0,
        labels=_labels(logged, logged.charset, recode_of),
        json=kind == table_map.JSON,
        invisible=logged.invisible,
        hidden=(logged.name or "").startswith(HASH_COLUMN),
    )
