"""Source that reads one column of a row image: types whose integers are big endian, and hashes of values."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import partial

from tidemark.captures.mysql.rows import table_map
from tidemark.captures.mysql.rows.table_map import LoggedColumn
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values.binary_values import decimal_groups, decimal_reader, fraction_bytes
from tidemark.captures.mysql.values.json_values import moment
from tidemark.captures.mysql.values.types import Form, hashable, set_text
from tidemark.captures.rows.cells import Cell
from tidemark.captures.rows.hashes import hashed

_BIG_ENDIAN = {1: "B", 2: "H", 3: "BH", 4: "I"}
"""``struct`` codes of an integer of so many bytes."""


@dataclass(slots=True)
class ValueReader:
    """Source that reads one column. ``v3`` and ``n3`` are its variables.

    Attributes:
        codes: ``struct`` codes of what is unpacked.
        size: Bytes of that.
        big: The integers are big endian.
        costly: Worth to be kept for the next image of the row, which nearly always has the same value. ``prepare``
            leaves the variables as they are, but for ``v3`` of a column of any length.
        variable: ``data`` or ``text`` when ``n3`` bytes of it follow; otherwise empty.
        used: ``v3`` is needed at all.
        json: The inside of an f-string that makes the JSON, without the quotes of ``mark``.
        key: The inside of an f-string that makes the key's text.
        mark: The quote around ``json``, or nothing.
        cell: The value in a column of Arrow, as an expression; empty if it is the text of ``json``.
        of: What such a column has; None if there is none for it.
        raw: The cell is of the variables as they are unpacked, before ``prepare``.
        names: What the source uses besides ``tidemark.captures.mysql.rows.logged_values.NAMES``.
    """

    codes: str
    variables: list[str]
    size: int
    big: bool = False
    costly: bool = False
    variable: str = ""
    used: bool = True
    prepare: list[str] = field(default_factory=list)
    json: str = ""
    key: str = ""
    mark: str = ""
    cell: str = ""
    of: Cell | None = Cell.TEXT
    raw: bool = False
    names: dict[str, object] = field(default_factory=dict)

    @property
    def expression(self) -> str:
        """The value in a column of Arrow, as an expression."""
        return self.cell or f'f"{self.json}"'


def read_decimal(reader: ValueReader, place: str, precision: int, scale: int) -> None:
    """Completes the reader of a DECIMAL; see ``tidemark.captures.mysql.values.binary_values.decimal_reader``."""
    v, decimal, text = f"v{place}", f"decimal{place}", f"d{place}"
    reader.names[decimal] = decimal_reader(precision, scale)
    reader.costly = True
    reader.json, reader.mark = f"{{{text}}}", '"'
    before, after = decimal_groups(precision, scale)
    if not before or len(before) > 2 or len(after) > 1:
        reader.prepare.append(f"{text} = {decimal}({v})")
        return
    # Positive ones inline, of integers that are unpacked with those of other columns.
    codes = ""
    variables: list[str] = []
    groups: list[str] = []
    for number, size in enumerate(before + after):
        code, parts, group = _integer(f"{v}_{number}", size)
        codes += code
        variables += parts
        groups.append(group)
    sign = f" - {1 << 8 * struct.calcsize(codes[0]) - 1}"
    groups[0] = groups[0].replace(variables[0], variables[0] + sign, 1)
    whole = groups[0] if len(before) == 1 else f"({groups[0]}) * 1000000000 + {groups[1]}"
    part = f".{_digits(reader, place, groups[-1], scale)}" if scale else ""
    reader.names[f"pack{place}"] = struct.Struct(f">{codes}").pack
    negative = f"{decimal}(pack{place}({', '.join(variables)}))"
    reader.prepare.append(f"{text} = f'{{{whole}}}{part}' if {variables[0]}{sign} >= 0 else {negative}")
    reader.codes, reader.variables, reader.big = codes, variables, True


def read_datetime(reader: ValueReader, place: str, digits: int, *, days: str) -> None:
    """Completes the reader of a DATETIME with so many digits of a second; ``days``: the name of ``DAYS``, or of its
    like.
    """
    codes, variables, fraction, microseconds = _fraction(reader, place, digits)
    reader.codes, reader.variables, reader.big = f"3sH{codes}", [f"v{place}", f"c{place}", *variables], True
    reader.costly = True
    reader.prepare.append(f"d{place}, t{place} = {days}[v{place}]")
    clock = f"{{t{place}[c{place}]}}{fraction}"
    reader.json, reader.mark = moment(f"{{d{place}}}", clock, utc=False), '"'
    reader.key = f"{{d{place}}} {{t{place}[c{place}]}}{fraction}"
    reader.cell = f"HALF_DAY_MICROSECONDS[v{place}] + CLOCK_MICROSECONDS[c{place}]{microseconds}"
    reader.of, reader.raw = Cell.DATETIME, True


def read_timestamp(reader: ValueReader, place: str, digits: int, *, big: bool, days: str) -> None:
    """Completes the reader of a TIMESTAMP: seconds since 1970. Before MySQL 5.6.4 they were little endian. ``days``:
    the name of ``EPOCH_DAYS``, or of its like.
    """
    codes, variables, fraction, microseconds = _fraction(reader, place, digits)
    reader.codes, reader.variables, reader.big = f"I{codes}", [f"v{place}", *variables], big
    reader.costly = True
    parts = f"(v{place} // 86400, v{place} % 86400) if {' or '.join(reader.variables)} else NEVER"
    reader.prepare.append(f"d{place}, t{place} = {parts}")
    clock = f"{{DAY_SECONDS[t{place}]}}{fraction}"
    reader.json, reader.mark = moment(f"{{{days}[d{place}]}}", clock, utc=True), '"'
    reader.key = f"{{{days}[d{place}]}} {{DAY_SECONDS[t{place}]}}{fraction}"
    reader.cell = f"v{place} * 1000000{microseconds} or no_day()"
    reader.of, reader.raw = Cell.TIMESTAMP, True


def _fraction(reader: ValueReader, place: str, digits: int) -> tuple[str, list[str], str, str]:
    """The digits of a second, two a byte: codes, variables, the text with the point, and microseconds to add."""
    size = fraction_bytes(digits)
    if not size:
        return "", [], "", ""
    code, variables, value = _integer(f"f{place}", size)
    microseconds = f" + {value}" if size == _MOST_FRACTION else f" + {value} * {100 ** (_MOST_FRACTION - size)}"
    return code, variables, f".{_digits(reader, place, value, digits, 2 * size)}", microseconds


_MOST_FRACTION = 3
"""Bytes of microseconds."""


def _integer(name: str, size: int) -> tuple[str, list[str], str]:
    """Codes, variables and value of a big-endian integer."""
    if size == 3:
        return _BIG_ENDIAN[size], [f"{name}_high", name], f"({name}_high << 16 | {name})"
    return _BIG_ENDIAN[size], [name], name


def _digits(reader: ValueReader, place: str, value: str, digits: int, stored: int | None = None) -> str:
    """The first ``digits`` decimal digits of a value that has ``stored`` of them: the inside of an f-string."""
    if digits == 2:
        return f"{{TWO_DIGITS[{value}]}}"
    # A one in front keeps the zeros, and costs less than a format.
    reader.prepare.append(f"p{place} = f'{{{value} + {10 ** (stored or digits)}}}'")
    return f"{{p{place}[1:{digits + 1}]}}"


def hash_value(reader: ValueReader, logged: LoggedColumn, column: Column, of: Form, place: str) -> None:
    """Makes ``reader.json`` that of the hash of the text that ``types.column_conversion`` takes, as chunks do. Raises
    LookupError for a type that is not hashed.
    """
    if logged.type == table_map.JSON or not hashable(column):
        raise LookupError("a type that has no hash")
    v = f"v{place}"
    text = reader.key or reader.json
    if logged.type == table_map.ENUM:
        reader.names[f"texts{place}"] = ("", *labels_of(column))
        text = f"{{texts{place}[{v}]}}"
    elif logged.type == table_map.SET:
        reader.names[f"set_text{place}"] = partial(set_text, labels_of(column))
        text = f"{{set_text{place}({v})}}"
    elif reader.variable:
        text = f"{{{v}}}"
    elif of is Form.BOOLEAN:
        text = f"{{{v}:d}}"
    reader.names[f"hashed{place}"] = hashed(column.salt)
    reader.prepare.append(f'h{place} = hashed{place}(f"{text}")[1:-1]')
    reader.json, reader.mark = f"{{h{place}}}", '"'
    reader.cell, reader.of, reader.raw = "", Cell.TEXT, False


def labels_of(column: Column) -> tuple[str, ...]:
    """The labels of an enum or set as byte texts."""
    return tuple(label.encode().decode("latin-1") for label in column.labels)
