"""How a column's value is read from a row image: the pieces of source from which readers of images are generated.

Every type ends in the text that ``captures.mysql.types.CONVERSIONS`` takes, or, where it is worth it, at once in the
JSON that the conversion would make of that text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from captures.mysql import binary_values, table_map
from captures.mysql.binary_values import decimal_bytes, decimal_reader, fraction_bytes
from captures.mysql.charsets import RecodeOf
from captures.mysql.columns import Column
from captures.mysql.json_binary import json_text
from captures.mysql.table_map import LoggedColumn
from captures.mysql.types import CONVERSIONS, Form, KeyForm, form, key_form, key_text, set_json
from captures.mysql.values import single_of, string

NAMES: dict[str, object] = {
    "string": string,
    "single_of": single_of,
    "key_text": key_text,
    "json_text": json_text,
    "TRUTH": ("false", "true"),
    "DATES": binary_values.DATES,
    "DATETIMES": binary_values.DATETIMES,
    "TIMESTAMPS": binary_values.TIMESTAMPS,
    "EPOCH": binary_values.EPOCH,
    "TWO_DIGITS": binary_values.TWO_DIGITS,
    "time_text": binary_values.time_text,
    "old_datetime_text": binary_values.old_datetime_text,
    "old_time_text": binary_values.old_time_text,
    "inflated": binary_values.inflated,
    "uuid_text": binary_values.uuid_text,
    "inet4_text": binary_values.inet4_text,
    "inet6_text": binary_values.inet6_text,
}
"""What generated source may use by name."""


@dataclass(slots=True)
class ValueReader:
    """Source that reads one column. ``v3`` and ``n3`` are its variables.

    Attributes:
        codes: ``struct`` codes of what is unpacked.
        variables: What they are unpacked to.
        size: Bytes of that.
        variable: ``data`` or ``text`` when ``n3`` bytes of it follow; otherwise empty.
        used: ``v3`` is needed at all.
        prepare: Statements.
        json: The inside of an f-string that makes the JSON, without the quotes of ``mark``.
        key: The inside of an f-string that makes the key's text.
        mark: The quote around ``json``, or nothing.
        names: What the source uses besides ``NAMES``.
    """

    codes: str
    variables: list[str]
    size: int
    variable: str = ""
    used: bool = True
    prepare: list[str] = field(default_factory=list)
    json: str = ""
    key: str = ""
    mark: str = ""
    names: dict[str, object] = field(default_factory=dict)


_INTEGERS = {
    table_map.TINY: ("b", 1),
    table_map.SHORT: ("h", 2),
    table_map.INT24: ("Hb", 3),
    table_map.LONG: ("i", 4),
    table_map.LONGLONG: ("q", 8),
}
_LENGTHS = {1: "B", 2: "H", 3: "HB", 4: "I"}
_TEXTS = frozenset((table_map.VARCHAR, table_map.VAR_STRING, table_map.STRING, table_map.VARCHAR_COMPRESSED))
_BLOBS = frozenset(
    (
        table_map.TINY_BLOB,
        table_map.BLOB,
        table_map.MEDIUM_BLOB,
        table_map.LONG_BLOB,
        table_map.BLOB_COMPRESSED,
        table_map.JSON,
        table_map.GEOMETRY,
        table_map.VECTOR,
        table_map.TYPED_ARRAY,
    )
)
_COMPRESSED = frozenset((table_map.VARCHAR_COMPRESSED, table_map.BLOB_COMPRESSED))
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
    """The reader of a column.

    Args:
        column: As documents have it, None when they do not.
        key: As keys have it, None when they do not.
        place: The number in the names of its variables.
        recode_of: What recodes texts.

    Raises:
        LookupError: The type, or its character set, is not known.
    """
    reader = _skipped(logged, place)
    described = column or key
    if described is None:
        reader.codes, reader.variables = _without_variables(reader)
        reader.used = False
        return reader
    wanted = form(described, tinyint1_as_bool=tinyint1_as_bool)
    if wanted is None:
        raise LookupError("an unknown type")
    coded = key is not None and key_form(key) is KeyForm.CODED
    _Describer(reader, logged, described, wanted, place, recode_of, coded=coded).describe()
    if key is not None:
        kind = key_form(key)
        if kind is None:
            raise LookupError("a type that no key has")
        reader.key = _key(reader, kind, wanted, place)
    return reader


def _without_variables(reader: ValueReader) -> tuple[str, list[str]]:
    if reader.variable:
        return reader.codes, reader.variables
    return f"{reader.size}x", []


def _skipped(logged: LoggedColumn, place: str) -> ValueReader:
    """What it takes to get past a value: its bytes in ``v``, or its length in ``n``."""
    v, n = f"v{place}", f"n{place}"
    kind = logged.type
    if kind in _INTEGERS:
        codes, size = _INTEGERS[kind]
        return ValueReader(codes, [v, f"{v}_high"][: len(codes)], size)
    if kind in _TEXTS or kind in _BLOBS:
        size = logged.size if kind in _BLOBS else 1 if logged.size < 256 else 2
        return ValueReader(_LENGTHS[size], [n, f"{n}_high"][: len(_LENGTHS[size])], size, "text")
    fixed = {
        table_map.FLOAT: ("f", 4),
        table_map.DOUBLE: ("d", 8),
        table_map.YEAR: ("B", 1),
        table_map.TIMESTAMP: ("I", 4),
        table_map.DATETIME: ("Q", 8),
    }
    if kind in fixed:
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
        case table_map.DATE | table_map.NEWDATE | table_map.TIME:
            return 3
        case table_map.SET:
            return logged.size
        case table_map.TIMESTAMP2:
            return 4 + fraction_bytes(logged.scale)
        case table_map.DATETIME2:
            return 5 + fraction_bytes(logged.scale)
        case table_map.TIME2:
            return 3 + fraction_bytes(logged.scale)
        case _:
            raise LookupError(f"type {logged.type}")


def _key(reader: ValueReader, kind: KeyForm, wanted: Form, place: str) -> str:
    v = f"v{place}"
    match kind:
        case KeyForm.TEXT:
            return f"{{key_text({v})}}"
        case KeyForm.HEX:
            return f"{{{v}.encode('latin-1').hex()}}"
        case KeyForm.REAL:
            return f"{{{v}!r}}"
        case KeyForm.NUMBER:
            return f"{{{v}}}"
        case _:
            if wanted is Form.BOOLEAN:
                return f"{{{v}}}"
            return reader.key or reader.json


class _Describer:
    """Completes a reader: what is done to ``v`` until it is JSON."""

    def __init__(
        self,
        reader: ValueReader,
        logged: LoggedColumn,
        column: Column,
        wanted: Form,
        place: str,
        recode_of: RecodeOf,
        *,
        coded: bool,
    ) -> None:
        self._recode_of = recode_of
        self._coded = coded
        self._reader = reader
        self._logged = logged
        self._column = column
        self._form = wanted
        self._v = f"v{place}"
        self._place = place

    def describe(self) -> None:
        kind = self._logged.type
        if kind in _INTEGERS:
            self._integer()
        elif kind in _TEXTS or kind in _BLOBS:
            self._bytes()
        elif kind in (table_map.ENUM, table_map.SET):
            self._labels()
        else:
            getattr(self, self._METHODS[kind])()

    def _prepare(self, line: str) -> None:
        self._reader.prepare.append(line)

    def _name(self, name: str, value: object) -> str:
        unique = f"{name}{self._place}"
        self._reader.names[unique] = value
        return unique

    def _quoted(self, inside: str) -> None:
        self._reader.json, self._reader.mark = inside, '"'

    def _integer(self) -> None:
        v = self._v
        if self._column.unsigned:
            self._reader.codes = self._reader.codes.replace("b", "B").replace("h", "H").replace("i", "I")
            self._reader.codes = self._reader.codes.replace("q", "Q")
        if self._logged.type == table_map.INT24:
            self._prepare(f"{v} += {v}_high << 16")
        self._number()

    def _number(self) -> None:
        v = self._v
        self._reader.json = f"{{TRUTH[{v} != 0]}}" if self._form is Form.BOOLEAN else f"{{{v}}}"

    def _year(self) -> None:
        # What was declared YEAR(2) is shown without its century.
        year = f"{self._v} % 100" if self._column.length == 2 else f"{self._v} and {self._v} + 1900"
        self._prepare(f"{self._v} = {year}")
        self._number()

    def _bit(self) -> None:
        self._prepare(f"{self._v} = int.from_bytes({self._v}, 'big')")
        self._number()

    def _float(self) -> None:
        self._reader.json = f"{{single_of({self._v})}}"

    def _double(self) -> None:
        self._reader.json = f"{{{self._v}!r}}"

    def _decimal(self) -> None:
        v, precision, scale = self._v, self._logged.size, self._logged.scale
        decimal = self._name("decimal", decimal_reader(precision, scale))
        # Positive ones that have neither in front of the point nor after it more than one group of digits: inline.
        if 0 < scale <= 9 and precision - scale < 9:
            size, fraction_size = decimal_bytes(precision, scale), decimal_bytes(scale, scale)
            top, mask = 1 << 8 * size - 1, (1 << 8 * fraction_size) - 1
            self._prepare(f"w{self._place} = int.from_bytes({v}, 'big') - {top}")
            whole, part = f"w{self._place} >> {8 * fraction_size}", f"w{self._place} & {mask}"
            part = f"TWO_DIGITS[{part}]" if scale == 2 else f"({part}):0{scale}d"
            self._prepare(f"{v} = f'{{{whole}}}.{{{part}}}' if w{self._place} >= 0 else {decimal}({v})")
        else:
            self._prepare(f"{v} = {decimal}({v})")
        self._quoted(f"{{{v}}}")

    def _date(self) -> None:
        self._quoted(f"{{DATES[{self._v}]}}")

    def _datetime(self) -> None:
        v = self._v
        fraction = self._fraction()
        self._prepare(f"{v} = DATETIMES[{v}]")
        self._quoted(f"{{{v}}}{fraction}")
        self._reader.key = f"{{{v}[:10]}} {{{v}[11:]}}{fraction}"

    def _timestamp(self) -> None:
        v = self._v
        if self._logged.type == table_map.TIMESTAMP:  # before MySQL 5.6.4 it was a little-endian number
            self._prepare(f"{v} = {v}.to_bytes(4, 'big')")
        fraction = self._fraction()
        if fraction:
            self._prepare(f"{v} = EPOCH if f{self._place} and not any({v}) else TIMESTAMPS[{v}]")
        else:
            self._prepare(f"{v} = TIMESTAMPS[{v}]")
        self._quoted(f"{{{v}}}{fraction}Z")
        self._reader.key = f"{{{v}[:10]}} {{{v}[11:]}}{fraction}"

    def _fraction(self) -> str:
        """The digits of a second with the point, from the bytes after the seconds: two digits a byte, big endian."""
        digits, f = self._logged.scale, f"f{self._place}"
        size = fraction_bytes(digits)
        if not size:
            return ""
        reader = self._reader
        reader.codes = f"{reader.size - size}s{size}s"
        reader.variables.append(f)
        self._prepare(f"{f} = int.from_bytes({f}, 'big')")
        if digits == 2:
            return f".{{TWO_DIGITS[{f}]}}"
        # A one in front keeps the zeros, and costs less than a format.
        self._prepare(f"{f}_text = f'{{{f} + {100**size}}}'")
        return f".{{{f}_text[1:{digits + 1}]}}"

    def _time(self) -> None:
        self._prepare(f"{self._v} = time_text({self._v}, {self._logged.scale})")
        self._quoted(f"{{{self._v}}}")

    def _old_datetime(self) -> None:
        self._prepare(f"{self._v} = old_datetime_text({self._v})")
        self._quoted(f"{{{self._v}[:10]}}T{{{self._v}[11:]}}")
        self._reader.key = f"{{{self._v}}}"

    def _old_time(self) -> None:
        self._prepare(f"{self._v} = old_time_text({self._v})")
        self._quoted(f"{{{self._v}}}")

    _METHODS: ClassVar[dict[int, str]] = {
        table_map.YEAR: "_year",
        table_map.BIT: "_bit",
        table_map.FLOAT: "_float",
        table_map.DOUBLE: "_double",
        table_map.NEWDECIMAL: "_decimal",
        table_map.DATE: "_date",
        table_map.NEWDATE: "_date",
        table_map.DATETIME2: "_datetime",
        table_map.TIMESTAMP2: "_timestamp",
        table_map.TIMESTAMP: "_timestamp",
        table_map.TIME2: "_time",
        table_map.DATETIME: "_old_datetime",
        table_map.TIME: "_old_time",
    }

    def _labels(self) -> None:
        v, labels = self._v, tuple(label.encode().decode("latin-1") for label in self._column.labels)
        if self._logged.type == table_map.ENUM:
            # Index 0 is the empty text that stands for a value that was not a label.
            texts = self._name("labels", tuple(string(label) for label in ("", *labels)))
            self._reader.json = f"{{{texts}[{v}]}}"
        else:
            self._prepare(f"{v} = int.from_bytes({v}, 'little')")
            self._reader.json = f"{{{self._name('labels', set_json(labels))}({v})}}"

    def _bytes(self) -> None:
        """Texts and binaries of any length: ``v`` becomes the text that the form's conversion takes."""
        v, reader, kind = self._v, self._reader, self._logged.type
        if kind == table_map.JSON:
            reader.variable = "data"
            reader.json = f"{{json_text({v})}}"
            return
        if kind in _COMPRESSED:
            reader.variable = "data"
            self._prepare(f"{v} = inflated({v}).decode('latin-1')")
        if self._column.data_type in _ADDRESSES:
            reader.variable = "data"
            self._prepare(f"{v} = {self._column.data_type}_text({v})")
            self._quoted(f"{{{v}}}")
            reader.key = f"{{{v}}}"
            return
        if self._column.data_type == "binary" and self._column.length:
            # The log leaves out trailing zero bytes.
            self._prepare(f"{v} = {v}.ljust({self._column.length}, '\\0')")
        if self._form in (Form.STRING, Form.JSON):
            recode = self._recode_of(self._column.charset or "utf8mb4")
            if self._coded:
                self._prepare(f"x{self._place} = {v}.encode('latin-1').hex()")
                reader.key = f"{{x{self._place}}}"
            if recode is not None:
                self._prepare(f"{v} = {self._name('recode', recode)}({v})")
        convert = "string" if self._form is Form.STRING else self._name("convert", CONVERSIONS[self._form])
        reader.json = f"{{{convert}({v})}}"
