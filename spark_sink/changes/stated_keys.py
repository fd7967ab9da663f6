"""Keys as a change log states them, compared with keys as Arrow has them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tidemark.spark_sink.changes.key_order import Place, place


def native(type_: str, value: bool | int | str) -> Any:
    """A key's value, as a change log states it, as Arrow gives it to Python."""
    if isinstance(value, str):
        if type_ == "binary":
            return bytes.fromhex(value)
        if type_ == "date":
            return date.fromisoformat(value)
        if type_ in ("timestamp", "timestamp_ntz"):
            return datetime.fromisoformat(value)
        if type_.startswith("decimal"):
            return Decimal(value)
    return value


def stated_place(types: Sequence[str], values: Sequence[bool | int | str]) -> Place:
    """Where a key that a change log states stands in the order."""
    return place([native(type_, value) for type_, value in zip(types, values, strict=True)])
