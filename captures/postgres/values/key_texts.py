"""The texts of key columns from the values that documents have: what ``json_values`` makes, turned back.

Two values that are equal to the server may have different texts, and a key is the text that the server prints. So a
type is here only where a document's value has one text.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Sequence
from dataclasses import replace

from tidemark.backfill.keys import Key, known_key
from tidemark.captures.postgres.catalog.columns import Column
from tidemark.captures.postgres.values import types
from tidemark.captures.postgres.values.arrow_forms import KeyTexts, arrow_form
from tidemark.protocol.messages import Json

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d{1,6})?(Z?)")


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
    oid = column.type.beneath.oid
    if oid == types.BOOL:
        return {True: "t", False: "f"}.get(value) if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    form = arrow_form(replace(column, on_bad_value="stop"))
    if form is not None and form.key is KeyTexts.DIGITS:
        return str(value) if isinstance(value, int) else None
    if not isinstance(value, str):
        return None
    if oid == types.BYTEA:
        return _bytes(value)
    if oid == types.DATE:
        return value if _DATE.fullmatch(value) else None
    if oid in (types.TIMESTAMP, types.TIMESTAMPTZ):
        return _moment(value, utc=oid == types.TIMESTAMPTZ)
    return value if form is not None and form.key is KeyTexts.SAME else None


def _bytes(value: str) -> str | None:
    try:
        return f"\\x{b64decode(value, validate=True).hex()}"
    except Error:
        return None


def _moment(value: str, *, utc: bool) -> str | None:
    """As the server prints it: without zeros at the end of the fraction, in the session's zone, which is UTC."""
    found = _MOMENT.fullmatch(value)
    if found is None or bool(found[4]) != utc:
        return None
    fraction = (found[3] or "").rstrip("0").rstrip(".")
    return f"{found[1]} {found[2]}{fraction}{'+00' if utc else ''}"
