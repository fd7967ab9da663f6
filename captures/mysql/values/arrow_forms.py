"""How the texts of a column become a column of Arrow, so that the change log has from it what it has from documents.

Columns are sent as text, in the form that documents have, or as bytes. What a document cannot hold is found here: then
the rows are read as documents, which know what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import TypeAlias

import msgspec
from msgspec import Raw

from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values import json_values
from tidemark.captures.mysql.values.charsets import HALVES
from tidemark.captures.mysql.values.json_values import CALENDAR, Convert
from tidemark.captures.mysql.values.types import TEMPORAL, Form, KeyForm, form, key_text
from tidemark.captures.tables.bad_values import SHORT_JSON

Data: TypeAlias = tuple[bytes, Iterable[int]]
"""The bytes of all values of a column, one after another, and the size of each."""

Send: TypeAlias = Callable[[Sequence[bytes]], Data]
"""Turns the texts that the server prints into what is sent. Raises ValueError, LookupError or struct.error for a text
that documents cannot have: it may hold the value, so never show it."""


@dataclass(frozen=True, slots=True)
class ArrowForm:
    """The form in which the values of a column are sent.

    Attributes:
        binary: They are bytes; otherwise text.
        exact: Every value that can usually be stored has a place in a document.
    """

    send: Send
    binary: bool = False
    exact: bool = True


_day = itemgetter(slice(0, 10))


def _joined(texts: Sequence[bytes]) -> Data:
    return b"".join(texts), map(len, texts)


def _strings(texts: Sequence[bytes]) -> Data:
    """Some character sets have what UTF-8 has not, and the server does not check what it has as UTF-8."""
    data = b"".join(texts)
    if not data.isascii():
        b"\0".join(texts).decode()  # Not ``data``: parts of characters in two texts may make a whole one.
    return data, map(len, texts)


def _booleans(texts: Sequence[bytes]) -> Data:
    return _joined([b"false" if text == b"0" else b"true" for text in texts])


def _converted(convert: Convert, texts: Sequence[bytes]) -> Data:
    return _joined([convert(text.decode("latin-1")).encode("latin-1") for text in texts])


def _check_days(texts: Iterable[bytes]) -> None:
    for day in set(texts):
        CALENDAR[day.decode("latin-1")]


def _dates(texts: Sequence[bytes]) -> Data:
    _check_days(texts)
    return b"".join(texts), repeat(10, len(texts))


def _moments(size: int, end: bytes, texts: Sequence[bytes]) -> Data:
    """From ``2024-01-15 14:30:00.123456``, which has ``size`` characters; ``end`` is what follows it in documents."""
    _check_days(map(_day, texts))
    data = end.join([*texts, b""]).replace(b" ", b"T")
    whole = size + len(end)
    if len(data) != whole * len(texts) or data[10::whole].count(b"T") != len(texts):
        raise ValueError("a moment of another size")
    return data, repeat(whole, len(texts))


_raws = msgspec.json.Decoder(list[Raw])


def _json(texts: Sequence[bytes]) -> Data:
    _, sizes = _strings(texts)
    if max(sizes, default=0) <= SHORT_JSON and _plain_json(texts):
        return _joined(texts)
    # A reader of JSON cuts a value out without the blanks around it.
    return _converted(lambda text: json_values.json(text).strip(" \t"), texts)


def _plain_json(texts: Sequence[bytes]) -> bool:
    """Whether each text is JSON on one line, without blanks around it. It takes less time to ask it of all at once."""
    data = b",".join(texts)
    if b"\n" in data or b"\r" in data:
        return False
    try:
        # Two texts that are no JSON may be some together, or one may be two. Then the sizes are not those of the texts.
        return list(map(len, _raws.decode(b"[%b]" % data))) == list(map(len, texts))
    except msgspec.DecodeError:
        return False


_FORMS: dict[Form, ArrowForm] = {
    **dict.fromkeys((Form.INTEGER, Form.DECIMAL, Form.DOUBLE, Form.TIME), ArrowForm(_joined)),
    Form.BOOLEAN: ArrowForm(_booleans),
    Form.FLOAT: ArrowForm(partial(_converted, json_values.single)),
    Form.STRING: ArrowForm(_strings),
    Form.BINARY: ArrowForm(_joined, binary=True),
    Form.DATE: ArrowForm(_dates, exact=False),
    Form.JSON: ArrowForm(_json, exact=False),
}

_MOMENT = 19
"""Characters of a datetime without parts of a second."""


def arrow_form(column: Column, *, tinyint1_as_bool: bool) -> ArrowForm | None:
    """The form of a column; None if its values have to be read as documents."""
    if column.salt:
        return None
    of = form(column, tinyint1_as_bool=tinyint1_as_bool)
    if of in (Form.DATETIME, Form.TIMESTAMP):
        size = _MOMENT + (column.fraction and 1 + column.fraction)
        found: ArrowForm | None = ArrowForm(partial(_moments, size, b"Z" * (of is Form.TIMESTAMP)), exact=False)
    else:
        found = None if of is None else _FORMS.get(of)
    # Where somebody says what becomes of bad values, there may be some in every chunk.
    exact = found is not None and found.exact and column.charset not in HALVES
    return found if exact or column.on_bad_value == "stop" else None


_PLAIN = TEMPORAL | {Form.INTEGER, Form.BOOLEAN, Form.TIME}
"""Not doubles: the server prints some with 34 characters."""

_PLAIN_DIGITS = 28
"""The most digits of a decimal with less than 32 characters: there may be a sign, a zero and a point."""


def arrow_plain(column: Column, *, tinyint1_as_bool: bool) -> bool:
    """Whether the texts of a column are printable ASCII of less than 32 characters."""
    of = form(column, tinyint1_as_bool=tinyint1_as_bool)
    return of in _PLAIN or (of is Form.DECIMAL and (column.precision or _PLAIN_DIGITS + 1) <= _PLAIN_DIGITS)


def key_part(of: KeyForm) -> Convert | None:
    """From the text that the server prints to the part of a key, as byte texts; None where they are the same."""
    match of:
        case KeyForm.TEXT:
            return key_text
        case KeyForm.HEX:
            return lambda text: text.encode("latin-1").hex()
        case KeyForm.REAL:
            return lambda text: repr(float(text))
        case KeyForm.PLAIN | KeyForm.NUMBER | KeyForm.CODED:
            return None
