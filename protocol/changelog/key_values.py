"""Keys as segments state them, for those who plan by them: which types are stated, and how values compare."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from protocol.changelog.models import KeyValue

_STATED = frozenset({"boolean", "bigint", "string", "binary", "date", "timestamp", "timestamp_ntz"})


def is_stated(type_: str) -> bool:
    """Whether values of a Spark SQL type, as in ``Column.type``, can be stated: all but double and arrays."""
    return type_ in _STATED or type_.startswith("decimal(")


def comparable(type_: str, value: KeyValue) -> Any:
    """A stated value as one whose Python order is the order of the column's values.

    That is the order by which segments are cut into runs: of strings, by code points (which is also that of their UTF-8
    bytes); of binary values, by unsigned bytes. Spark and Arrow order alike.

    Args:
        type_: The column's Spark SQL type, one that ``is_stated``.
        value: As ``Segment.key_min``, ``Segment.key_max`` or a ``Run`` has it.

    Returns:
        A ``Decimal`` for ``decimal(p,s)``, the value itself for every other type. Values of one column compare with
        one another only.
    """
    return Decimal(str(value)) if type_.startswith("decimal(") else value
