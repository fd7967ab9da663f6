"""A table that a configuration names, as far as all databases have the same of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from captures.contract.scan import ScanMethod
from captures.contract.source import OpenedTable
from captures.tables.bad_values import Policies
from captures.tables.table_config import TableConfig
from protocol.errors import SourceError

C = TypeVar("C")


def check_bound_once(names: Sequence[tuple[str, str]], code: str) -> None:
    """Looks at the tables of all bindings, by schema and name as the server compares them.

    Raises:
        SourceError: ``code`` a table is bound twice: the log's changes would go to one of the bindings only.
    """
    if twice := sorted({".".join(name) for name in names if names.count(name) > 1}):
        raise SourceError(code, f"bound more than once: {', '.join(twice)}", remedy="Leave one binding of each table.")


def captured_as(
    columns: Iterable[C],
    exclude: Sequence[str],
    hashed: Sequence[str],
    salt: bytes,
    policies: Policies,
    key: Sequence[str],
) -> tuple[C, ...]:
    """The columns that documents have, with what is done with their values.

    Args:
        columns: Dataclasses with ``name``, ``salt`` and ``on_bad_value``.
    """
    return tuple(_captured(column, hashed, salt, policies, key) for column in columns if _name(column) not in exclude)


def _captured(column: Any, hashed: Sequence[str], salt: bytes, policies: Policies, key: Sequence[str]) -> Any:
    name = _name(column)
    policy = policies.column(name, in_key=name in key)
    return replace(column, salt=salt if name in hashed else b"", on_bad_value=policy)


def _name(column: Any) -> str:
    name: str = column.name
    return name


def unfit_table(index: int, state_key: str, resource: TableConfig, why: SourceError) -> OpenedTable:
    """What a binding is to the engine whose table cannot be captured."""
    none = ScanMethod.NONE
    return OpenedTable(index, resource.name, state_key, {}, "", (), none, resource.priority, None, unfit=why)
