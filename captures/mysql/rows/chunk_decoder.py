"""Decodes rows of the text protocol (MySQL internals, "Text Resultset Row"): every value a length and its text.

The decoder is generated, one per table version, so that nothing is decided per value. The source is built from the
columns' places and forms, and the texts that a document needs, in which all but plain characters are escaped (see
``tidemark.captures.rows.source_literals``). In it ``v3`` is the text of the row's value 3, a byte text (see
``tidemark.captures.mysql.values.json_values``), and ``m3`` its JSON with its name, as a member of an object, with a
comma in front. ``tests/captures/mysql/rows/generated_decoders.txt`` shows one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tidemark.captures.mysql.terms.columns import Column, quoted_name
from tidemark.captures.mysql.values import json_values
from tidemark.captures.mysql.values.charsets import HALVES, joined_halves
from tidemark.captures.mysql.values.json_values import CALENDAR
from tidemark.captures.mysql.values.types import Form, KeyForm, column_conversion, form, key_form, key_text
from tidemark.captures.rows.captured_line import END
from tidemark.captures.rows.source_literals import generated, literal, quoted
from tidemark.captures.tables.bad_values import ROW_LIMIT, TOO_LARGE, BadValue, Repairs, largest, unfit_for
from tidemark.captures.tables.suggested_entries import excluding
from tidemark.protocol.errors import SourceError

ChunkDecoder = Callable[[Sequence[bytes], int], tuple[list[bytes], list[bytes]]]
"""Payloads of row packets, and the number of the first row in its chunk, to the rows' tails and keys.

A tail is what follows the beginning of ``cursor`` in a line, ``0000000"}},"id":1,"name":"a"}}}`` and a newline.
A key is the texts of the key columns joined by NUL, the same as the log's. Raises BadValues, and SourceError
``TM-MY-030``.
"""

MISFITS = (ValueError, LookupError, struct.error)
"""The errors of conversions for an invalid text. They may hold values: never chain them."""

_NUMBER = '{number:07}"}}'
"""The inside of an f-string: the number of a row, and the end of ``source``."""

NULL = 251
"""A length that is none: the value is NULL. A greater one says how many bytes the length takes."""


def _inline(day: str, first: str) -> dict[Form, str]:
    """The inside of f-strings in single quotes that make the JSON of the text in a variable, ``%s``. Other forms call a
    function. ``day`` makes a day of the text, and ``first`` of its first ten characters.
    """
    moment = partial(json_values.moment, f"{{{first}}}", "{%s[11:]}")
    return {
        Form.INTEGER: "{%s}",
        **dict.fromkeys((Form.DECIMAL, Form.TIME), '"{%s}"'),
        Form.STRING: "{string(%s)}",
        Form.DATE: f'"{{{day}}}"',
        Form.DATETIME: json_values.quoted(moment(utc=False)),
        Form.TIMESTAMP: json_values.quoted(moment(utc=True)),
    }


_INLINE = _inline("CALENDAR[%s]", "CALENDAR[%s[:10]]")
_INLINE_TEXT = _inline("%s", "%s[:10]") | {Form.JSON: "{string(%s)}"}
"""The same where the column is text."""

SHORT = {Form.INTEGER, Form.BOOLEAN, Form.DATE, Form.DATETIME, Form.TIMESTAMP, Form.TIME, Form.DECIMAL}
"""Texts of these forms have fewer than 251 bytes, so their length takes one byte."""

_KEYS: dict[KeyForm, str] = {
    KeyForm.PLAIN: "{v%d}",
    KeyForm.TEXT: "{key_text(v%d)}",
    **dict.fromkeys((KeyForm.NUMBER, KeyForm.CODED), "{v%d}"),
    KeyForm.HEX: '{v%d.encode("latin-1").hex()}',
    KeyForm.REAL: "{float(v%d)!r}",
}


EXTRA_KEYS = {KeyForm.NUMBER: "CAST(%s AS UNSIGNED)", KeyForm.CODED: "LOWER(HEX(%s))"}
"""Keys that are not made of the document's text: they are selected in addition."""


def selected(columns: Sequence[Column], key: Sequence[str], *, of: str = "{}") -> list[str]:
    """The SQL expressions whose texts the decoder of these columns takes, in order; ``of`` is SQL with the column."""
    forms = [(quoted_name(column.name), key_form(column)) for column in _in_order(columns, key)]
    extra = [EXTRA_KEYS[form].replace("%s", name) for name, form in forms if form in EXTRA_KEYS]
    return [*(_expression(column, of.format(quoted_name(column.name))) for column in columns), *extra]


def _expression(column: Column, name: str) -> str:
    if column.data_type == "bit":
        return f"CAST({name} AS UNSIGNED)"
    if column.data_type == "float" or (column.data_type == "double" and column.scale is not None):
        # Otherwise the server prints six digits of a float, or as many as were declared.
        return f"{name} * 1e0"
    if column.zerofill or column.data_type == "year":
        return f"{name} + 0"
    if column.labels and column.charset in (None, "binary"):
        # The bytes of labels without a character set, which MariaDB otherwise sends as they are.
        return f"CONVERT({name} USING utf8mb4)"
    return name


def _in_order(columns: Sequence[Column], key: Sequence[str]) -> list[Column]:
    by_name = {column.name: column for column in columns}
    return [by_name[name] for name in key]


def compile_chunk_decoder(
    columns: Sequence[Column],
    key: Sequence[str],
    *,
    table: str = "",
    tinyint1_as_bool: bool = False,
    repairs: Repairs | None = None,
    keys_only: bool = False,
) -> ChunkDecoder:
    """Generates the decoder of a table's chunks, whose queries select ``selected(columns, key)``.

    Args:
        columns: What documents have, in order. At least one: a tail needs a first member.
        repairs: Applies the policies to bad values; None: each bad value is an error.
        keys_only: Tails are not used, so rows may have any size.

    Raises:
        SourceError: ``TM-MY-031`` a column of a type that is not known.
    """
    if not columns:
        raise ValueError("a chunk without columns has no tails")
    forms = [_form(column, table, tinyint1_as_bool) for column in columns]
    labels = list(map(_label, columns))
    labels[0] = f"}}{labels[0]}"
    repaired = RepairedRows(columns, key, table, tinyint1_as_bool, repairs or Repairs(table))
    namespace: dict[str, Any] = {
        "CALENDAR": CALENDAR,
        "string": json_values.string,
        "key_text": key_text,
        "length": text_length,
        "MISFITS": MISFITS,
        "repaired": repaired.row,
        "check": (lambda rows, tails, first: tails) if keys_only else repaired.check,
        **{
            f"join{place}": joined_halves(column.charset, digits=keys_only)
            for place, column in enumerate(columns)
            if column.charset in HALVES
        },
        **{
            f"convert{place}": column_conversion(column, of)
            for place, (column, of) in enumerate(zip(columns, forms, strict=True))
        },
    }
    body = [line for place, column in enumerate(columns) for line in _value(place, column, labels[place], forms[place])]
    parts = []
    extra = len(columns)
    for column in _in_order(columns, key):
        kind = key_form(column)
        if kind is None:
            raise SourceError("TM-MY-022", f"{table}: a column of type {column.data_type} cannot be part of a key")
        place = columns.index(column)
        if kind in EXTRA_KEYS:
            body += ["n = row[p]", *_taken(f"v{extra}")]
            place, extra = extra, extra + 1
        parts.append(_KEYS[kind] % place)
    members = "".join(f"{{m{place}}}" for place in range(len(columns)))
    lines = [
        "def decode(rows, first):",
        "    tails = []",
        "    keys = []",
        "    for number, row in enumerate(rows, first):",
        '        line = row.decode("latin-1")',
        "        p = 0",
        "        try:",
        *(f"            {line}" for line in body),
        "            if p != len(row):",
        "                raise ValueError",
        f"            tail = f'{_NUMBER}{members}{literal(END)}'",
        f"            key = {_joined(parts)}",
        "        except MISFITS:",
        "            tail, key = repaired(row, number)",
        '        tails.append(tail.encode("latin-1"))',
        '        keys.append(key.encode("latin-1"))',
        "    return check(rows, tails, first), keys",
    ]
    decode: ChunkDecoder = generated("chunk decoder", lines, namespace)["decode"]
    return decode


def _label(column: Column) -> str:
    """``,"name":`` as a byte text."""
    return f",{json_values.string(column.name_text)}:"


def _joined(parts: Sequence[str]) -> str:
    """An expression that joins the key's parts by NUL."""
    return " '\\0' ".join(f"f'{part}'" for part in parts) or "''"


def _taken(variable: str) -> list[str]:
    """The statements that take a text of any length ``n``, whose first byte was read."""
    return [
        "p += 1",
        f"if n >= {NULL}:",
        "    n, p = length(row, n, p)",
        "q = p + n",
        f"{variable} = line[p:q]",
        "p = q",
    ]


def _value(place: int, column: Column, label: str, of: Form) -> list[str]:
    """The statements that take a value's text from ``p`` on, and make its member."""
    v = f"v{place}"
    made = f"{{convert{place}({v})}}"
    inline = _INLINE_TEXT if column.on_bad_value == "text" else _INLINE
    if of in inline and not column.salt:
        made = inline[of].replace("%s", v)
    member = f"m{place} = f'{literal(label)}{made}'"
    join = [f"{v} = join{place}({v})"] if column.charset in HALVES else []
    take = ["q = p + 1 + n", f"{v} = line[p + 1:q]", "p = q"] if of in SHORT else [*_taken(v), *join]
    if not column.nullable:
        return ["n = row[p]", *take, member]
    return [
        "n = row[p]",
        f"if n == {NULL}:",
        "    p += 1",
        f"    m{place} = {quoted(f'{label}null')}",
        "else:",
        *(f"    {line}" for line in (*take, member)),
    ]


def text_length(row: bytes, first: int, place: int) -> tuple[int, int]:
    """A length of more than one byte, whose first byte was read, and where the text begins."""
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
    if size is None:
        raise ValueError("NULL in a column that is NOT NULL")
    return int.from_bytes(row[place : place + size], "little"), place + size


def _form(column: Column, table: str, tinyint1_as_bool: bool) -> Form:
    of = form(column, tinyint1_as_bool=tinyint1_as_bool)
    if of is None:
        raise unknown_type(table, column)
    return of


def unknown_type(table: str, column: Column) -> SourceError:
    """The error for a column without a form."""
    what = "labels that are no texts" if column.labels else f"the unknown type {column.data_type}"
    return SourceError(
        "TM-MY-031",
        f"{table}: column {column.name} has {what}",
        remedy=f"Leave the column out with `{excluding(column.name)}`.",
    )


class RepairedRows:
    """Rows of chunks with values that a document cannot represent: applies the policies to them."""

    def __init__(
        self, columns: Sequence[Column], key: Sequence[str], table: str, tinyint1_as_bool: bool, repairs: Repairs
    ) -> None:
        self._columns = [(column.name_text, column) for column in columns]
        self._labels = [_label(column) for column in columns]
        self._conversions = [column_conversion(column, _form(column, table, tinyint1_as_bool)) for column in columns]
        self._decode_key: ChunkDecoder | None = None
        self._table = table
        self._tinyint1_as_bool = tinyint1_as_bool
        self._repairs = repairs
        self._key = list(key)
        self._bad_key: bytes | None = None

    def _key_text(self, row: bytes) -> str:
        """The key of a row, as it is."""
        if self._decode_key is None:
            texts = [replace(column, on_bad_value="text") for _, column in self._columns]
            self._decode_key = compile_chunk_decoder(
                texts, self._key, table=self._table, tinyint1_as_bool=self._tinyint1_as_bool, keys_only=True
            )
        return self._decode_key([row], 0)[1][0].decode("latin-1")

    def row(self, row: bytes, number: int, limit: int | None = None) -> tuple[str, str]:
        """The tail and the key of the row of that number. Raises SourceError ``TM-MY-030`` when it is not one."""
        if limit is None and all(c.on_bad_value == "text" and c.charset not in HALVES for _, c in self._columns):
            raise self._unfitting() from None
        texts = self._split(row)
        key = self._key_text(row)
        stopped = len(self._repairs.stopped)
        members = [self._member(place, text) if text is not None else "null" for place, text in enumerate(texts)]
        if limit is not None:
            self._shrink(members, limit)
        if len(self._repairs.stopped) > stopped and self._bad_key is None:
            self._bad_key = key.encode("latin-1")
        labelled = "".join(map(str.__add__, self._labels, members))
        return f'{number:07}"}}{self._repairs.mark()}}}{labelled}{END}', key

    def check(self, rows: Sequence[bytes], tails: list[bytes], first: int) -> list[bytes]:
        """The tails, none of them too large for a line. Raises BadValues if a policy does not accept a value."""
        for place, tail in enumerate(tails):
            if len(tail) > ROW_LIMIT:
                tails[place] = self.row(rows[place], first + place, ROW_LIMIT)[0].encode("latin-1")
        key, self._bad_key = self._bad_key, None
        self._repairs.check(key)
        return tails

    def _member(self, place: int, text: str) -> str:
        try:
            return self._conversions[place](text)
        except MISFITS as error:
            name, column = self._columns[place]
            bad = error if isinstance(error, BadValue) else BadValue(unfit_for(column.data_type))
            raw = joined_halves(column.charset, digits=True)(text) if column.charset in HALVES else text
            settled = self._repairs.settle(name, column.on_bad_value, bad, raw)
        return "null" if settled is None else self._conversions[place](settled)

    def _shrink(self, members: list[str], limit: int) -> None:
        """Leaves out the largest values, by their policies, until at most ``limit`` bytes are left."""
        for place in largest(list(map(len, members)), limit - sum(map(len, self._labels))):
            name, column = self._columns[place]
            policy = "stop" if column.name in self._key else column.on_bad_value
            self._repairs.settle(name, policy, BadValue(TOO_LARGE), json_values.source_text(members[place]))
            members[place] = "null"

    def _split(self, row: bytes) -> list[str | None]:
        texts: list[str | None] = []
        place = 0
        for _ in self._columns:
            if place >= len(row):
                raise self._unfitting() from None
            size, place = row[place], place + 1
            if size == NULL:
                texts.append(None)
                continue
            if size > NULL:
                size, place = text_length(row, size, place)
            texts.append(row[place : place + size].decode("latin-1"))
            place += size
        return texts

    def _unfitting(self) -> SourceError:
        where = f"{self._table}: " if self._table else ""
        return SourceError(
            "TM-MY-030", f"{where}a row does not have the {len(self._columns)} columns that the table has"
        )
