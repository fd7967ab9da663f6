"""How a column's value is read from a row image: the pieces of source from which readers of images are generated.

Every type ends in the text that ``tidemark.captures.mysql.values.types.CONVERSIONS`` takes, or, where it is worth it,
at once in the JSON that the conversion would make of that text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemark.captures.mysql.rows import table_map
from tidemark.captures.mysql.rows.table_map import LoggedColumn
from tidemark.captures.mysql.rows.value_reader import (
    ValueReader,
    hash_value,
    labels_of,
    read_datetime,
    read_decimal,
    read_timestamp,
)
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values import binary_values
from tidemark.captures.mysql.values.binary_values import (
    HIRES_DATETIME_BYTES,
    HIRES_TIME_BYTES,
    decimal_bytes,
    fraction_bytes,
)
from tidemark.captures.mysql.values.charsets import RecodeOf
from tidemark.captures.mysql.values.json_binary import json_text
from tidemark.captures.mysql.values.json_values import (
    CALENDAR,
    LINE_BREAKS,
    double_of,
    moment,
    single_of,
    string,
    verbatim,
    walk_json,
)
from tidemark.captures.mysql.values.types import CONVERSIONS, Form, KeyForm, form, key_form, key_text, set_values
from tidemark.captures.rows.cells import Cell
from tidemark.captures.tables.bad_values import SHORT_JSON, check_nesting

_BINARY = """
    DATES ANY_DATES DAYS ANY_DAYS EPOCH_DAYS ANY_EPOCH_DAYS DAY_SECONDS NEVER DATE_DAYS HALF_DAY_MICROSECONDS
    CLOCK_MICROSECONDS no_day TWO_DIGITS time_text old_datetime_text old_time_text hires_datetime_text
    hires_timestamp_text hires_time_text inflated uuid_text inet4_text inet6_text
"""
NAMES: dict[str, object] = {
    "string": string,
    "single_of": single_of,
    "double_of": double_of,
    "walk_json": walk_json,
    "check_nesting": check_nesting,
    "LINE_BREAKS": LINE_BREAKS,
    "BLANKS": " \t",
    "key_text": key_text,
    "json_text": json_text,
    "TRUTH": ("false", "true"),
    "CALENDAR": CALENDAR,
    **{name: getattr(binary_values, name) for name in _BINARY.split()},
}
"""What generated source may use by name."""


_INTEGERS = {
    table_map.TINY: ("b", 1),
    table_map.SHORT: ("h", 2),
    table_map.INT24: ("Hb", 3),
    table_map.LONG: ("i", 4),
    table_map.LONGLONG: ("q", 8),
}
_SIGNED_BITS = 63
"""What an integer of 64 bits has beside its sign."""

_LENGTHS = {1: "B", 2: "H", 3: "HB", 4: "I"}
_TEXTS = frozenset((table_map.VARCHAR, table_map.VAR_STRING, table_map.STRING, table_map.VARCHAR_COMPRESSED))
_COMPRESSED = frozenset((table_map.VARCHAR_COMPRESSED, table_map.BLOB_COMPRESSED))
_PLAIN_BLOBS = (table_map.TINY_BLOB, table_map.BLOB, table_map.MEDIUM_BLOB, table_map.LONG_BLOB)
_BLOBS = frozenset(
    (
        *_PLAIN_BLOBS,
        table_map.BLOB_COMPRESSED,
        table_map.JSON,
        table_map.GEOMETRY,
        table_map.VECTOR,
        table_map.TYPED_ARRAY,
    )
)
_MOMENTS = frozenset((Cell.DATE, Cell.DATETIME, Cell.TIMESTAMP))
_ADDRESSES = frozenset(("uuid", "inet4", "inet6"))


def value_reader(
    logged: LoggedColumn,
    column: Column | None,
    key: Column | None,
    place: str,
    *,
    recode_of: RecodeOf,
    tinyint1_as_bool: bool,
) -> ValueReader:
    """The reader of a column, as documents have it, and as keys do; None where they do not. ``place`` is the number in
    the names of its variables. Raises LookupError for an unknown type or character set.
    """
    reader = _skipped(logged, place)
    described = column or key
    if described is None:
        if not reader.variable:
            reader.codes, reader.variables = f"{reader.size}x", []
        reader.used = False
        return reader
    wanted = form(described, tinyint1_as_bool=tinyint1_as_bool)
    if wanted is None:
        raise LookupError("an unknown type")
    coded = key is not None and key_form(key) is KeyForm.CODED
    _Describer(reader, logged, described, wanted, place, recode_of, coded).describe()
    if described.on_bad_value == "text" and reader.of in _MOMENTS:
        reader.cell, reader.of, reader.raw = "", Cell.TEXT, False
    if described.salt:
        hash_value(reader, logged, described, wanted, place)
    if key is not None:
        kind = key_form(key)
        if kind is None:
            raise LookupError("a type that no key has")
        text = "{%s}" if wanted is Form.BOOLEAN else _KEYS.get(kind)
        reader.key = reader.key or reader.json if text is None else text % f"v{place}"
    return reader


def _skipped(logged: LoggedColumn, place: str) -> ValueReader:
    """What it takes to get past a value: its bytes in ``v``, or its length in ``n``."""
    v, n = f"v{place}", f"n{place}"
    kind = logged.type
    if kind in _INTEGERS:
        codes, size = _INTEGERS[kind]
        return ValueReader(codes, [v, f"{v}_high"][: len(codes)], size)
    if kind in _TEXTS or kind in _BLOBS:
        size = logged.size if kind in _BLOBS else 1 if logged.size < 256 else 2
        return ValueReader(_LENGTHS[size], [n, f"{n}_high"][: len(_LENGTHS[size])], size, variable="text")
    fixed = {
        table_map.FLOAT: ("f", 4),
        table_map.DOUBLE: ("d", 8),
        table_map.YEAR: ("B", 1),
        table_map.TIMESTAMP: ("I", 4),
        table_map.DATETIME: ("Q", 8),
    }
    if kind in fixed and not logged.scale:
        codes, size = fixed[kind]
        return ValueReader(codes, [v], size)
    if kind == table_map.ENUM:
        return ValueReader("B" if logged.size == 1 else "H", [v], logged.size)
    size = _bytes(logged)
    return ValueReader(f"{size}s", [v], size)


def _bytes(logged: LoggedColumn) -> int:
    """Bytes of a type that is read as bytes."""
    match logged.type:
        case table_map.NEWDECIMAL:
            return decimal_bytes(logged.size, logged.scale)
        case table_map.BIT:
            return (logged.size + 7) // 8
        case table_map.DATE | table_map.NEWDATE:
            return 3
        case table_map.TIME:
            return HIRES_TIME_BYTES[logged.scale]
        case table_map.DATETIME:
            return HIRES_DATETIME_BYTES[logged.scale]
        case table_map.SET:
            return logged.size
        case table_map.TIMESTAMP | table_map.TIMESTAMP2:
            return 4 + fraction_bytes(logged.scale)
        case table_map.DATETIME2:
            return 5 + fraction_bytes(logged.scale)
        case table_map.TIME2:
            return 3 + fraction_bytes(logged.scale)
        case _:
            raise LookupError(f"type {logged.type}")


_KEYS = {
    KeyForm.TEXT: "{key_text(%s)}",
    KeyForm.HEX: "{%s.encode('latin-1').hex()}",
    KeyForm.REAL: "{%s!r}",
    KeyForm.NUMBER: "{%s}",
}


@dataclass(slots=True)
class _Describer:
    """Completes a reader: what is done to ``v`` until it is JSON."""

    reader: ValueReader
    logged: LoggedColumn
    column: Column
    wanted: Form
    place: str
    recode_of: RecodeOf
    coded: bool
    _v: str = field(init=False)
    _as_text: bool = field(init=False)
    _any: str = field(init=False)

    def __post_init__(self) -> None:
        self._v = f"v{self.place}"
        self._as_text = self.column.on_bad_value == "text"
        # A hash is of the text, whatever that is.
        self._any = "ANY_" if self._as_text or self.column.salt else ""

    def describe(self) -> None:
        """Raises LookupError for a type that is not known."""
        reader, v, place, scale = self.reader, self._v, self.place, self.logged.scale
        match self.logged.type:
            case kind if kind in _INTEGERS:
                self._integer()
            case kind if kind in _TEXTS or kind in _BLOBS:
                self._bytes()
            case table_map.ENUM | table_map.SET:
                self._labels()
            case table_map.YEAR:
                # What was declared YEAR(2) is shown without its century.
                self._prepare(f"{v} = " + (f"{v} % 100" if self.column.length == 2 else f"{v} and {v} + 1900"))
                self._number()
            case table_map.BIT:
                self._prepare(f"{v} = int.from_bytes({v}, 'big')")
                self._number()
            case table_map.FLOAT | table_map.DOUBLE as kind:
                reader.costly = True
                if kind == table_map.DOUBLE and not self._as_text:
                    reader.cell, reader.of, reader.raw = v, Cell.DOUBLE, True
                reader.json = f"{{{'single_of' if kind == table_map.FLOAT else 'double_of'}({v})}}"
            case table_map.NEWDECIMAL:
                read_decimal(reader, place, self.logged.size, scale)
            case table_map.DATE | table_map.NEWDATE:
                self._quoted(f"{{{self._any}DATES[{v}]}}")
                reader.cell, reader.of, reader.raw = f"DATE_DAYS[{v}]", Cell.DATE, True
            case table_map.DATETIME2:
                read_datetime(reader, place, scale, days=f"{self._any}DAYS")
            case table_map.DATETIME:
                self._moment(f"hires_datetime_text({v}, {scale})" if scale else f"old_datetime_text({v})", utc=False)
            case table_map.TIMESTAMP if scale:
                self._moment(f"hires_timestamp_text({v}, {scale})", utc=True)
            case table_map.TIMESTAMP | table_map.TIMESTAMP2 as kind:
                big = kind == table_map.TIMESTAMP2
                read_timestamp(reader, place, scale, big=big, days=f"{self._any}EPOCH_DAYS")
            case table_map.TIME2:
                reader.costly = True
                self._prepare(f"t{place} = time_text({v}, {scale})")
                self._quoted(f"{{t{place}}}")
            case table_map.TIME:
                self._prepare(f"{v} = " + (f"hires_time_text({v}, {scale})" if scale else f"old_time_text({v})"))
                self._quoted(f"{{{v}}}")
            case kind:
                raise LookupError(f"type {kind}")

    def _prepare(self, line: str) -> None:
        self.reader.prepare.append(line)

    def _name(self, name: str, value: object) -> str:
        unique = f"{name}{self.place}"
        self.reader.names[unique] = value
        return unique

    def _quoted(self, inside: str) -> None:
        self.reader.json, self.reader.mark = inside, '"'

    def _integer(self) -> None:
        v = self._v
        if self.column.unsigned:
            self.reader.codes = self.reader.codes.replace("b", "B").replace("h", "H").replace("i", "I")
            self.reader.codes = self.reader.codes.replace("q", "Q")
        if self.logged.type == table_map.INT24:
            self._prepare(f"{v} += {v}_high << 16")
        self._number()

    def _number(self) -> None:
        v, reader = self._v, self.reader
        reader.json = f"{{TRUTH[{v} != 0]}}" if self.wanted is Form.BOOLEAN else f"{{{v}}}"
        large = self.column.unsigned if self.logged.type == table_map.LONGLONG else self.logged.size > _SIGNED_BITS
        if self.wanted is Form.INTEGER and not (large or self._as_text):
            reader.cell, reader.of = v, Cell.INTEGER

    def _moment(self, text: str, *, utc: bool) -> None:
        """A day and a clock, from the source of their text."""
        self._prepare(f"{self._v} = {text}")
        day = f"{self._v}[:10]"
        day = day if self._any else f"CALENDAR[{day}]"
        self._quoted(moment(f"{{{day}}}", f"{{{self._v}[11:]}}", utc=utc))
        self.reader.key = f"{{{self._v}}}"

    def _labels(self) -> None:
        v, labels = self._v, labels_of(self.column)
        if self.logged.type == table_map.ENUM:
            # Index 0 is the empty text that stands for a value that was not a label.
            texts = self._name("labels", tuple(string(label) for label in ("", *labels)))
            self.reader.json = f"{{{texts}[{v}]}}"
            self.reader.cell = f"{self._name('label', ('', *labels))}[{v}]"
        else:
            self._prepare(f"{v} = int.from_bytes({v}, 'little')")
            self.reader.json = f"{{{self._name('labels', set_values(labels, string))}({v})}}"
            self.reader.cell = f"{self._name('label', set_values(labels, verbatim))}({v})"

    def _bytes(self) -> None:
        """Texts and binaries of any length: ``v`` becomes the text that the form's conversion takes."""
        v, reader, kind = self._v, self.reader, self.logged.type
        reader.costly = True
        if kind == table_map.JSON:
            reader.variable = "data"
            reader.json = f"{{string(json_text({v}))}}" if self._as_text else f"{{json_text({v})}}"
            reader.cell = f"json_text({v})" if self._as_text else ""
            return
        if kind in _COMPRESSED:
            reader.variable = "data"
            self._prepare(f"{v} = inflated({v}).decode('latin-1')")
        if self.column.data_type in _ADDRESSES:
            reader.variable = "data"
            self._prepare(f"{v} = {self.column.data_type}_text({v})")
            self._quoted(f"{{{v}}}")
            reader.key = f"{{{v}}}"
            return
        if self.column.data_type == "binary" and self.column.length:
            # The log leaves out trailing zero bytes.
            self._prepare(f"{v} = {v}.ljust({self.column.length}, '\\0')")
        if self.wanted in (Form.STRING, Form.JSON):
            recode = self.recode_of(self.column.charset or "utf8mb4")
            if self.coded:
                self._prepare(f"x{self.place} = {v}.encode('latin-1').hex()")
                reader.key = f"{{x{self.place}}}"
            if recode is not None:
                self._prepare(f"{v} = {self._name('recode', recode)}({v})")
        if self.wanted is Form.JSON and not (self.column.salt or self._as_text):
            self._json()
            return
        text = self.wanted is Form.STRING or (self.wanted is Form.JSON and self._as_text)
        convert = "string" if text else self._name("convert", CONVERSIONS[self.wanted])
        reader.json = f"{{{convert}({v})}}"
        match self.wanted:
            case Form.VECTOR:
                reader.of = None if self._as_text else Cell.JSON
            case Form.BINARY:
                # A column that is text has its base64, and others take nothing but the bytes.
                reader.cell, reader.of = v, None if self._as_text else Cell.BYTES
            case Form.GEOMETRY:
                reader.cell = f"{convert}({v})[1:-1]"
            case _:
                reader.cell = v

    def _json(self) -> None:
        """What ``tidemark.captures.mysql.values.json_values.json`` does, inline."""
        v = self._v
        self._prepare(f"if not {v}: {v} = 'null'")
        self._prepare(f"if len({v}) >= {SHORT_JSON}: check_nesting({v})")
        self._prepare(f"walk_json({v})")
        self._prepare(f"if '\\n' in {v} or '\\r' in {v}: {v} = {v}.translate(LINE_BREAKS)")
        self.reader.json = f"{{{v}}}"
        self.reader.cell = f"{v}.strip(BLANKS)"  # As a reader of JSON cuts it out.
