"""A database that holds the random workload's tables, whichever kind it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tidemark.demo.comparison import Row, canonical, canonical_json

TABLES: dict[str, list[str]] = {"accounts": ["id"], "entries": ["account", "line"], "labels": ["code"]}
"""The tables of the random workload, each with its key: one of each kind, and values that are easily got wrong."""

BIG = 3200
"""Characters of a value that PostgreSQL stores out of line (over 2 kB, not compressed): an UPDATE that leaves it as it
is does not write it to the log."""


@dataclass(frozen=True)
class Contents:
    """What a source table holds: rows in canonical form, in the order of their keys' texts."""

    columns: Sequence[str]
    json_columns: frozenset[str]
    rows: Sequence[Row]

    def row(self, key: Sequence[Any], values: Mapping[str, Any]) -> Row:
        """A row of a copy with these columns, in canonical form."""
        return tuple(key), tuple(
            canonical_json(values[name]) if name in self.json_columns else canonical(values[name])
            for name in self.columns
        )


class Source(ABC):
    """One database, as the workload writes to it and as its copy is compared with it.

    Attributes:
        connector: The module of the connector that captures it.
        errors: What the driver raises.
        sql: What the workload's operations execute, with ``%s`` for each value.
    """

    connector: ClassVar[str]
    errors: ClassVar[type[Exception]]
    sql: ClassVar[Mapping[str, str]]

    @property
    @abstractmethod
    def schema(self) -> str:
        """Of the tables."""

    @abstractmethod
    def connect(self, *, autocommit: bool = False) -> Any:
        """A DB-API connection."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The connector's endpoint configuration."""

    @abstractmethod
    def create_tables(self, rows: int) -> None:
        """Makes the tables and fills each with ``rows`` rows."""

    @abstractmethod
    def is_conflict(self, error: Exception) -> bool:
        """Whether concurrent writers run into this: the transaction is rolled back and the next one comes."""

    @abstractmethod
    def contents(self, table: str, key: Sequence[str]) -> Contents:
        """All of ``schema.table``."""

    def tables(self) -> dict[str, list[str]]:
        """The workload's tables by ``schema.table``, each with its key."""
        return {f"{self.schema}.{table}": key for table, key in TABLES.items()}


def in_order(rows: Sequence[Row]) -> list[Row]:
    """In the order of the keys' texts, which is the same for every source."""
    return sorted((tuple(map(str, key)), values) for key, values in rows)
