"""The configuration of one table, the same for every database."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidemark.captures.tables.bad_values import ResourcePolicy
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

M = TypeVar("M", bound=BaseModel)


class TableConfig(BaseModel):
    """One table's configuration. Each database restricts ``scan`` to its own methods."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

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


def parsed_resource(model: type[M], config: JsonObject, code: str) -> M:
    """Validates the options of a table, and raises as ``parsed``."""
    where = ".".join(str(config.get(name, "?")) for name in ("schema", "table"))
    return parsed(model, config, f"resource {where}", code)


def parsed(model: type[M], config: JsonObject, what: str, code: str) -> M:
    """Validates a part of a connector's configuration.

    Args:
        what: The part, for people.

    Raises:
        SourceError: ``code`` with every wrong field, and without any value.
    """
    try:
        return model.model_validate(config)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or what}: {e['msg']}" for e in error.errors(include_input=False)
        )
        raise SourceError(code, f"{what}: {wrong}") from None
