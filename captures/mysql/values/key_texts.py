"""The texts of key columns from the values that documents have: what ``json_values`` makes, turned back.

Two values that are equal to the server may have different texts, and a key is the text of one of them. So a type is
here only where a document's value has one text.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Sequence

from tidemark.backfill.keys import Key, known_key
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values.types import Form, KeyForm, form, key_form, key_text
from tidemark.protocol.messages import Json

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z?)")
_VERBATIM = frozenset((Form.DECIMAL, Form.TIME, Form.STRING))


def key_of(columns: Sequence[Column], values: Sequence[Json]) -> Key | None:
    """The key with these values; None if a value is not one of its column, or the column's type has no such texts.

    Args:
        columns: Of the key.
        values: Of each, as documents have it.
    """
    if len(values) != len(columns):
        return None
    return known_key(map(_text, columns, values))


def _text(column: Column, value: Json) -> str | None:
    of = form(column)
    if of is Form.BOOLEAN and isinstance(value, bool):
        return str(int(value))
    if of is Form.INTEGER and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or column.salt:
        return None
    match key_form(column):
        case KeyForm.TEXT:
            return key_text(value)
        case KeyForm.HEX:
            return _hex(value)
        case KeyForm.NUMBER:
            return _number(column, value)
        case KeyForm.PLAIN if of is Form.DATE:
            return value if _DATE.fullmatch(value) else None
        case KeyForm.PLAIN if of in (Form.DATETIME, Form.TIMESTAMP):
            return _moment(column, value, utc=of is Form.TIMESTAMP)
        case KeyForm.PLAIN if of in _VERBATIM and not column.zerofill:
            return value
    return None


def _hex(value: str) -> str | None:
    try:
        return b64decode(value, validate=True).hex()
    except Error:
        return None


def _number(column: Column, value: str) -> str | None:
    """An enum's index, or a set's bits. Labels that the catalog may not show are not known."""
    chosen = value.split(",") if column.data_type == "set" and value else [value] if value else []
    if any(label not in column.labels or column.may_hide(label) for label in chosen):
        return None
    places = [column.labels.index(label) for label in chosen]
    return str(sum(1 << place for place in places) if column.data_type == "set" else sum(place + 1 for place in places))


def _moment(column: Column, value: str, *, utc: bool) -> str | None:
    """As the server prints it: with as many digits of a second as the column holds."""
    found = _MOMENT.fullmatch(value)
    if found is None or bool(found[4]) != utc:
        return None
    fraction = (found[3] or "").ljust(6, "0")[: column.fraction]
    return f"{found[1]} {found[2]}" + (f".{fraction}" if fraction else "")
