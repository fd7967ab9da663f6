"""A configured table: what is the same for all databases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

from tidemark.captures.contract.source import OpenedTable, ScanMethod
from tidemark.captures.rows.hashes import no_salt
from tidemark.captures.tables.bad_values import STOP, Policies, Policy
from tidemark.captures.tables.table_config import TableConfig
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

C = TypeVar("C")


class CatalogTable(Protocol):
    """A table of a catalog: what is the same for all databases."""

    @property
    def key(self) -> tuple[str, ...]: ...

    @property
    def estimated_rows(self) -> int | None: ...

    @property
    def size_bytes(self) -> int: ...


class TableBinding(ABC):
    """Base of each database's dataclass for a binding, which has these attributes as fields.

    Attributes:
        table: Of an unfit binding only the name is meaningful.
        salt: For the hashes of columns.
        on_bad_value: The endpoint's policy.
        unfit: Why the table cannot be captured.

    Raises:
        SourceError: ``wrong_config`` columns are to be hashed, and there is no salt.
    """

    __slots__ = ()

    wrong_config: ClassVar[str]
    """The code of errors in the configuration."""

    state_key: str
    resource: TableConfig
    table: CatalogTable
    salt: bytes
    on_bad_value: Policy
    unfit: SourceError | None

    def __post_init__(self) -> None:
        if self.resource.hash and not self.salt:
            raise no_salt(self.wrong_config, self.name)

    @property
    @abstractmethod
    def name(self) -> str:
        """For people, ``schema.table``."""

    @property
    @abstractmethod
    def scan(self) -> ScanMethod: ...

    @property
    @abstractmethod
    def document_schema(self) -> JsonObject:
        """The closed JSON Schema of the table's documents."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """See ``OpenedTable``."""

    @property
    def former_identity(self) -> str | None:
        """``OpenedTable.formerly``."""
        return None

    @property
    @abstractmethod
    def whole_rows(self) -> str:
        """See ``OpenedTable``."""

    @property
    def policies(self) -> Policies:
        return Policies.of(self.on_bad_value, self.resource.on_bad_value)

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the key columns; empty when rows cannot be told apart."""
        return tuple(self.resource.key) if self.resource.key is not None else self.table.key

    def _captured(self, columns: Iterable[C]) -> tuple[C, ...]:
        """The columns that documents have by the table's configuration."""
        exclude, hashed = self.resource.exclude, self.resource.hash
        return captured_as(columns, exclude, hashed, self.salt, policies=self.policies, key=self.key)

    def _opened(self, binding: int) -> OpenedTable:
        """The table for the engine; ``binding`` is its index."""
        resource = self.resource
        if self.unfit is not None:
            return OpenedTable(
                binding=binding,
                name=resource.name,
                state_key=self.state_key,
                document_schema={},
                identity="",
                key=(),
                scan=ScanMethod.NONE,
                priority=resource.priority,
                estimated_rows=None,
                unfit=self.unfit,
                where=resource.where or "",
            )
        return OpenedTable(
            binding=binding,
            name=self.name,
            state_key=self.state_key,
            document_schema=self.document_schema,
            identity=self.identity,
            formerly=self.former_identity,
            key=self.key,
            scan=self.scan,
            priority=resource.priority,
            estimated_rows=self.table.estimated_rows,
            estimated_bytes=self.table.size_bytes,
            where=resource.where or "",
            policy=self.policies.text(resource.exclude, resource.hash),
            whole_rows=self.whole_rows,
        )


def check_any_fit(bindings: Sequence[TableBinding]) -> None:
    """Raises the SourceError of the first binding if no table can be captured."""
    failures = [binding.unfit for binding in bindings if binding.unfit is not None]
    if failures and len(failures) == len(bindings):
        raise failures[0]


def check_bound_once(names: Sequence[tuple[str, str]], code: str) -> None:
    """Looks at the tables of all bindings, by schema and name as the server compares them.

    Raises:
        SourceError: ``code`` a table is bound twice: the log's changes would go to one of the bindings only.
    """
    if twice := sorted(".".join(name) for name, times in Counter(names).items() if times > 1):
        raise SourceError(code, f"bound more than once: {', '.join(twice)}", remedy="Leave one binding of each table.")


def captured_as(
    columns: Iterable[C],
    exclude: Sequence[str] = (),
    hashed: Sequence[str] = (),
    salt: bytes = b"",
    *,
    policies: Policies = STOP,
    key: Sequence[str] = (),
) -> tuple[C, ...]:
    """The columns that are not excluded, with what is done with their values.

    Args:
        columns: Dataclasses with ``name``, ``salt`` and ``on_bad_value``.
    """
    captured = []
    column: Any
    for column in columns:
        if column.name not in exclude:
            policy = policies.column(column.name, in_key=column.name in key)
            captured.append(replace(column, salt=salt if column.name in hashed else b"", on_bad_value=policy))
    return tuple(captured)
