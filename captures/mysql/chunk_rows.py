"""Decodes rows of the text protocol (MySQL internals, "Text Resultset Row"): every value a length and its text.

The decoder is generated, one per table version, so that nothing is decided per value. The source is built from the
columns' places and forms, and the texts that a document needs, each character of which is escaped that could mean
anything (see ``captures.generated_text``). In it ``v3`` is the text of the row's value 3, a byte text (see
``captures.mysql.values``), and ``m3`` its JSON with its name, as a member of an object, with a comma in front.
"""

from __future__ import annotations

import linecache
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from captures.generated_text import literal, quoted
from captures.mysql import values
from captures.mysql.columns import Column
from captures.mysql.types import Form, KeyForm, column_conversion, form, key_form, key_text
from protocol.errors import SourceError

ChunkDecoder = Callable[[Sequence[bytes], int], tuple[list[bytes], list[bytes]]]
"""Payloads of row packets, and the number of the first row in its chunk, to the rows' tails and keys.

A tail is what follows the beginning of ``cursor`` in a line, ``0000000"}},"id":1,"name":"a"}}}`` and a newline.
A key is the texts of the key columns joined by NUL, the same as the log's. Raises SourceError ``TM-MY-030`` and
``TM-MY-031``.
"""

MISFITS = (ValueError, LookupError, struct.error)
"""What conversions raise when a text is not as it must be. They may hold values: never chain them."""

_AFTER_PLACE = '"}},'
_END = "}}}\n"
_NULL = 251

# The inside of an f-string in single quotes that makes the JSON of the text in a variable. Other forms call a function.
_INLINE: dict[Form, str] = {
    Form.INTEGER: "{%s}",
    **dict.fromkeys((Form.DECIMAL, Form.DATE, Form.TIME), '"{%s}"'),
    Form.STRING: "{string(%s)}",
    Form.DATETIME: '"{%s[:10]}T{%s[11:]}"',
    Form.TIMESTAMP: '"{%s[:10]}T{%s[11:]}Z"',
}

_SHORT = {Form.INTEGER, Form.BOOLEAN, Form.DATE, Form.DATETIME, Form.TIMESTAMP, Form.TIME, Form.DECIMAL}
"""Texts of these have fewer than 251 bytes, so that their length is one byte."""

_KEYS: dict[KeyForm, str] = {
    KeyForm.PLAIN: "{v%d}",
    KeyForm.TEXT: "{key_text(v%d)}",
    **dict.fromkeys((KeyForm.NUMBER, KeyForm.CODED), "{v%d}"),
    KeyForm.HEX: '{v%d.encode("latin-1").hex()}',
    KeyForm.REAL: "{float(v%d)!r}",
}


_EXTRA = {KeyForm.NUMBER: "CAST(%s AS UNSIGNED)", KeyForm.CODED: "LOWER(HEX(%s))"}
"""Keys that are not made of the text that the document has: selected besides."""


def selected(columns: Sequence[Column], key: Sequence[str]) -> list[str]:
    """The SQL expressions whose texts the decoder of these columns takes, in order."""
    forms = [(quoted_name(column.name), key_form(column)) for column in _in_order(columns, key)]
    extra = [_EXTRA[form].replace("%s", name) for name, form in forms if form in _EXTRA]
    return [*map(_expression, columns), *extra]


def quoted_name(name: str) -> str:
    """A name as SQL."""
    return f"`{name.replace('`', '``')}`"


def _expression(column: Column) -> str:
    name = quoted_name(column.name)
    if column.data_type == "bit":
        return f"CAST({name} AS UNSIGNED)"
    if column.data_type == "float" or (column.data_type == "double" and column.scale is not None):
        # The server would print six digits of a float, or as many as were declared.
        return f"{name} * 1e0"
    if column.zerofill or column.data_type == "year":
        return f"{name} + 0"
    return name


def _in_order(columns: Sequence[Column], key: Sequence[str]) -> list[Column]:
    by_name = {column.name: column for column in columns}
    return [by_name[name] for name in key]


def compile_chunk_decoder(
    columns: Sequence[Column], key: Sequence[str], *, table: str = "", tinyint1_as_bool: bool = False
) -> ChunkDecoder:
    """Generates the decoder of a table's chunks, whose queries select ``selected(columns, key)``.

    Args:
        columns: What documents have, in order. At least one: a tail needs a first member.
        key: Names of the key columns, all among ``columns``.
        table: ``schema.table``, for errors.

    Raises:
        SourceError: ``TM-MY-031`` a column of a type that is not known.
    """
    if not columns:
        raise ValueError("a chunk without columns has no tails")
    forms = [_form(column, table, tinyint1_as_bool) for column in columns]
    labels = [f",{values.string(column.name.encode().decode('latin-1'))}:" for column in columns]
    labels[0] = labels[0][1:]
    namespace: dict[str, Any] = {
        "string": values.string,
        "key_text": key_text,
        "length": _length,
        "MISFITS": MISFITS,
        "failure": lambda row: _misfit(row, columns, forms, table),
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
        if kind in _EXTRA:
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
        f"            tail = f'{{number:07}}{literal(_AFTER_PLACE)}{members}{literal(_END)}'",
        f"            key = {_joined(parts)}",
        "        except MISFITS:",
        "            raise failure(row) from None",
        '        tails.append(tail.encode("latin-1"))',
        '        keys.append(key.encode("latin-1"))',
        "    return tails, keys",
    ]
    source = "\n".join(lines) + "\n"
    filename = f"<chunk decoder {zlib.crc32(source.encode()):08x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), namespace)  # noqa: S102 - built from forms and places, see above
    decode: ChunkDecoder = namespace["decode"]
    return decode


def _joined(parts: Sequence[str]) -> str:
    """An expression that joins the key's parts by NUL."""
    return " '\\0' ".join(f"f'{part}'" for part in parts) or "''"


def _taken(variable: str) -> list[str]:
    """The statements that take a text of any length ``n``, whose first byte was read."""
    return [
        "p += 1",
        f"if n >= {_NULL}:",
        "    n, p = length(row, n, p)",
        "q = p + n",
        f"{variable} = line[p:q]",
        "p = q",
    ]


def _value(place: int, column: Column, label: str, of: Form) -> list[str]:
    """The statements that take a value's text from ``p`` on, and make its member."""
    v = f"v{place}"
    made = f"{{convert{place}({v})}}"
    if of in _INLINE and not column.salt:
        made = _INLINE[of].replace("%s", v)
    member = f"m{place} = f'{literal(label)}{made}'"
    take = ["q = p + 1 + n", f"{v} = line[p + 1:q]", "p = q"] if of in _SHORT else _taken(v)
    if not column.nullable:
        return ["n = row[p]", *take, member]
    return [
        "n = row[p]",
        f"if n == {_NULL}:",
        "    p += 1",
        f"    m{place} = {quoted(f'{label}null')}",
        "else:",
        *(f"    {line}" for line in (*take, member)),
    ]


def _length(row: bytes, first: int, place: int) -> tuple[int, int]:
    """A length of more than one byte, whose first byte was read, and where the text begins."""
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
    if size is None:
        raise ValueError("NULL where there can be none")
    return int.from_bytes(row[place : place + size], "little"), place + size


def _form(column: Column, table: str, tinyint1_as_bool: bool) -> Form:
    of = form(column, tinyint1_as_bool=tinyint1_as_bool)
    if of is None:
        raise SourceError(
            "TM-MY-031",
            f"{table}: column {column.name} is of type {column.data_type}, which is not known here",
            remedy=f"Leave the column out with `exclude: [{column.name}]`.",
        )
    return of


def _misfit(row: bytes, columns: Sequence[Column], forms: Sequence[Form], table: str) -> SourceError:
    """The error for a row that could not be decoded: names the column, never its value."""
    where = f"{table}: " if table else ""
    place = 0
    for column, of in zip(columns, forms, strict=True):
        if place >= len(row):
            break
        size, place = row[place], place + 1
        if size == _NULL:
            continue
        if size > _NULL:
            size, place = _length(row, size, place)
        text, place = row[place : place + size].decode("latin-1"), place + size
        try:
            column_conversion(column, of)(text)
        except MISFITS:
            return SourceError(
                "TM-MY-031", f"{where}column {column.name}: a value is not written as type {column.data_type} should be"
            )
    return SourceError("TM-MY-030", f"{where}a row does not have the {len(columns)} columns that the table has")
