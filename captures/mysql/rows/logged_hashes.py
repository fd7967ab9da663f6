"""Hashes of values in row images, in place of their JSON: of the same texts as in chunks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidemark.captures.mysql.rows import table_map
from tidemark.captures.mysql.rows.table_map import LoggedColumn
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values.types import Form, hashable, set_text
from tidemark.captures.rows.cells import Cell
from tidemark.captures.rows.hashes import hashed

if TYPE_CHECKING:
    from tidemark.captures.mysql.rows.value_reader import ValueReader


def hash_value(reader: ValueReader, logged: LoggedColumn, column: Column, of: Form, place: str) -> None:
    """Makes ``reader.json`` that of the hash of the text that ``types.column_conversion`` takes.

    Args:
        reader: Complete, with a JSON that nothing else needs.
        column: Of which documents have hashes.
        of: Its form.
        place: The number in the names of the reader's variables.

    Raises:
        LookupError: A type that is not hashed.
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
