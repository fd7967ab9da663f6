"""What an operator configures: the endpoint, and each table."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from protocol.errors import SourceError
from protocol.messages import JsonObject

M = TypeVar("M", bound=BaseModel)


class Strict(BaseModel):
    """A part of the configuration; an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BackfillConfig(Strict):
    """How tables are backfilled."""

    readers: Annotated[int, Field(ge=1, le=32, description="Tables read at the same time, each on a connection")] = 1
    chunk_seconds: Annotated[float, Field(gt=0, le=60, description="How long a chunk should take to read")] = 1.0
    chunk_rows: Annotated[int | None, Field(ge=1, description="Rows in a chunk; adapts when absent")] = None


class EndpointConfig(Strict):
    """The connector's configuration."""

    host: Annotated[str, Field(description="Host name, address, or directory of the server's socket")]
    port: Annotated[int, Field(ge=1, le=65535)] = 5432
    database: str
    user: str
    password: Annotated[SecretStr, Field(json_schema_extra={"secret": True})] = SecretStr("")
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = "prefer"
    sslrootcert: Annotated[str | None, Field(description="File of certificate authorities")] = None
    slot: Annotated[
        str,
        Field(pattern=r"^[a-z0-9_]{1,63}$", description="Replication slot: lower-case letters, digits, underscores"),
    ] = "tidemark"
    publication: Annotated[str, Field(min_length=1, max_length=63)] = "tidemark"
    create: Annotated[bool, Field(description="Make slot and publication, and add tables to it, where absent")] = True
    read_only: Annotated[bool, Field(description="Write nothing at all to the source, not even a log message")] = False
    on_lost_position: Annotated[
        Literal["fail"], Field(description="What to do when the server no longer has the log we need")
    ] = "fail"
    backfill: BackfillConfig = BackfillConfig()
    heartbeat_seconds: Annotated[
        float, Field(gt=0, description="An idle capture writes a checkpoint this often, so that the slot advances")
    ] = 10.0
    truncate: Annotated[
        Literal["emit", "ignore"], Field(description="Whether TRUNCATE becomes a document with op t")
    ] = "emit"


class ResourceConfig(Strict):
    """One table's configuration."""

    schema_name: Annotated[str, Field(alias="schema", min_length=1)]
    table: Annotated[str, Field(min_length=1)]
    scan: Annotated[
        Literal["key", "none"], Field(description="How the table is backfilled: in key order, or not at all")
    ] = "key"
    key: Annotated[list[str] | None, Field(description="Key columns, the primary key when absent")] = None
    where: Annotated[str | None, Field(description="SQL condition that limits the backfill, not the log")] = None
    exclude: Annotated[list[str], Field(description="Columns that are left out")] = []
    priority: Annotated[int, Field(description="Tables of higher priority are backfilled first")] = 0

    @property
    def path(self) -> list[str]:
        return [self.schema_name, self.table]


def parse_endpoint(config: JsonObject) -> EndpointConfig:
    """Raises SourceError ``TM-PG-023`` that names every wrong field, never a value."""
    return _parse(EndpointConfig, config, "config")


def parse_resource(config: JsonObject) -> ResourceConfig:
    """Raises SourceError ``TM-PG-023``."""
    where = ".".join(str(config.get(name, "?")) for name in ("schema", "table"))
    return _parse(ResourceConfig, config, f"resource {where}")


def _parse(model: type[M], config: JsonObject, what: str) -> M:
    try:
        return model.model_validate(config)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or what}: {e['msg']}" for e in error.errors(include_input=False)
        )
        raise SourceError("TM-PG-023", f"{what}: {wrong}") from None


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON Schema as ``spec`` shows it."""
    return model.model_json_schema(by_alias=True)
