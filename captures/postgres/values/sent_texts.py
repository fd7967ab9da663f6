"""The texts of columns of the log in Arrow: what the log's texts become, all of a column at once.

A runtime casts texts as documents have them, without quotes. What is no such text is sent as the JSON of the document's
member (``meta.json`` in docs/protocol.md). Conversions are right or raise an error: then the rows are sent as lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemark.captures.postgres.catalog.columns import Column
from tidemark.captures.postgres.values import json_values, types
from tidemark.captures.postgres.values.column_values import Texts, column_convert
from tidemark.captures.postgres.values.json_values import Convert
from tidemark.captures.postgres.values.types import Conversion


@dataclass(frozen=True, slots=True)
class SentTexts:
    """How the texts of a column are sent.

    Attributes:
        convert: Of one text at least. Raises ValueError or LookupError for an unusual one, which may still be right.
            None: they are sent as they are.
        json: What is sent is JSON.
    """

    convert: Callable[[Texts], Texts] | None = None
    json: bool = False


_AS_THEY_ARE = SentTexts()
_AS_NUMBERS = frozenset((types.INT2, types.INT4, types.INT8, types.OID))


def _floating(texts: Texts) -> Texts:
    # JSON has no negative zero, and Arrow would parse one.
    if "-0" in texts:
        raise ValueError("a negative zero")
    return texts


def _json(texts: Texts) -> Texts:
    # Without the blanks around a value, as a reader of JSON cuts it out.
    return [json_values.json(text).strip(" \t") for text in texts]


_CONVERTS: dict[Convert, SentTexts] = {
    json_values.quoted: _AS_THEY_ARE,
    json_values.string: _AS_THEY_ARE,
    json_values.floating: SentTexts(_floating),
    json_values.json: SentTexts(_json, json=True),
}


def sent_texts(column: Column, conversion: Conversion) -> SentTexts | None:
    """How the texts of a column are sent that ``conversion`` converts one by one; None if they cannot be."""
    if column.transcoded:
        return None
    convert = conversion.usual or conversion.convert
    base = column.type.beneath
    if convert is json_values.verbatim and base.oid in _AS_NUMBERS:
        return _AS_THEY_ARE
    if base.kind == "enum" and not column.salt:
        return _AS_THEY_ARE if convert is json_values.string else SentTexts(_seen(convert))
    if (known := _CONVERTS.get(convert)) is not None:
        return known
    of_column = column_convert(conversion)
    if of_column.quoted or convert is json_values.boolean:
        return SentTexts(of_column.convert)
    # The log keeps the text of any JSON in a column that is text, and would read this as a string's.
    return None if column.on_bad_value == "text" else SentTexts(of_column.convert, json=True)


def _seen(convert: Convert) -> Callable[[Texts], Texts]:
    """Labels as they are, after ``convert`` was shown each of them."""

    def convert_all(texts: Texts) -> Texts:
        for text in set(texts):
            convert(text)
        return texts

    return convert_all
