"""The configuration of one table, the same for every database."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from tidemark.captures.server.strict_config import Strict
from tidemark.captures.tables.bad_values import ResourcePolicy


class TableConfig(BaseModel):
    """One table's configuration. Each database restricts ``scan`` to its own methods."""

    model_config = Strict.model_config

    schema_name: Annotated[str, Field(alias="schema", min_length=1)]
    table: Annotated[str, Field(min_length=1)]
    scan: str | None = None
    key: Annotated[list[str] | None, Field(description="Key columns; default: the primary key")] = None
    where: Annotated[
        str | None, Field(description="SQL condition for the rows of the backfill; it does not apply to changes")
    ] = None
    exclude: Annotated[list[str], Field(description="Columns to leave out")] = []
    hash: Annotated[list[str], Field(description="Columns to replace by the salted SHA-256 of the value's text")] = []
    on_bad_value: Annotated[
        ResourcePolicy, Field(description="As in the connector's configuration, or a policy for each column listed")
    ] = None
    priority: Annotated[int, Field(description="Tables with a higher priority are backfilled first")] = 0

    @property
    def path(self) -> list[str]:
        return [self.schema_name, self.table]

    @property
    def name(self) -> str:
        """For people, ``schema.table``."""
        return f"{self.schema_name}.{self.table}"
