"""The options of an endpoint's configuration that every database has."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, WithJsonSchema

from tidemark.captures.contract.options import BackfillConfig
from tidemark.captures.tables.bad_values import EndpointPolicy
from tidemark.captures.tables.table_config import M, parsed
from tidemark.captures.tables.truncation import TruncateOption, Truncation
from tidemark.protocol.environment import RUNTIME, is_on
from tidemark.protocol.messages import JsonObject

Secret = Annotated[SecretStr, WithJsonSchema({"type": "string", "secret": True})]
"""A secret. Flow's runtime does not accept pydantic's format ``password``."""


def _own_options_first(schema: dict[str, Any]) -> None:
    """Forms show options in the schema's order: a database's own, such as its host, come before the common ones."""
    options = schema["properties"]
    schema["properties"] = dict(sorted(options.items(), key=lambda option: option[0] in Endpoint.model_fields))


class Endpoint(BaseModel):
    """Base of each database's configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, json_schema_extra=_own_options_first)

    on_lost_position: Annotated[
        Literal["fail", "backfill"],
        Field(description="If the server no longer has the required log: stop, or read all tables again"),
    ] = "fail"
    on_alter: Annotated[
        Literal["follow", "ask"],
        Field(description="If an altered table must be read again: read it, or wait for `tidemark resume`"),
    ] = "follow"
    on_bad_value: Annotated[
        EndpointPolicy,
        Field(description="What to do with a value that a document cannot represent, such as a year after 9999"),
    ] = "stop"
    backfill: BackfillConfig = BackfillConfig()
    heartbeat_seconds: Annotated[float, Field(gt=0, description="Seconds between checkpoints of an idle capture")] = (
        10.0
    )
    truncate: TruncateOption = "auto"
    hash_salt: Annotated[Secret, Field(description="Salt prepended to each value before hashing")] = SecretStr("")

    @property
    def asks(self) -> bool:
        """Whether a reread because of an altered table waits for a command."""
        return self.on_alter == "ask"

    @property
    def truncation(self) -> Truncation:
        """The output for a TRUNCATE with the present runtime."""
        if self.truncate != "auto":
            return Truncation(self.truncate)
        return Truncation.EMIT if is_on(RUNTIME) else Truncation.IGNORE

    @property
    def announced(self) -> bool:
        """Whether the begin and the end of each backfill are written, so that a table is emptied."""
        return is_on(RUNTIME) or self.truncation is Truncation.BACKFILL

    @property
    def identifies_columns(self) -> bool:
        """Whether schemas have the identities of columns, and the constants that fill older rows."""
        return is_on(RUNTIME)


def parsed_endpoint(model: type[M], config: JsonObject, code: str) -> M:
    """Validates the options of an endpoint, and raises as ``parsed``."""
    return parsed(model, config, "config", code)
