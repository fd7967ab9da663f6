"""What an operator configures: the endpoint, and each table."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from captures.postgres.server.slot_names import WITHOUT_A_NAME
from captures.server.backfill_config import BackfillConfig
from captures.server.config_schema import Secret
from captures.tables.bad_values import EndpointPolicy, ResourcePolicy
from captures.tables.truncation import TruncateOption, Truncation, truncation
from protocol.errors import SourceError
from protocol.messages import JsonObject
from protocol.sizes import size_or_number

M = TypeVar("M", bound=BaseModel)


class Strict(BaseModel):
    """A part of the configuration; an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _without_default(schema: dict[str, Any]) -> None:
    """The default depends on the capture: a form that fills in what stands here would give all of them the same."""
    del schema["default"]


class EndpointConfig(Strict):
    """The connector's configuration."""

    host: Annotated[str, Field(description="Host name, address, or directory of the server's socket")]
    port: Annotated[int, Field(ge=1, le=65535)] = 5432
    database: str
    user: str
    password: Secret = SecretStr("")
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = "prefer"
    sslrootcert: Annotated[str | None, Field(description="File with the certificates of the authorities")] = None
    sslcert: Annotated[str | None, Field(description="File with the client's certificate")] = None
    sslkey: Annotated[str | None, Field(description="File with the private key of the client's certificate")] = None
    slot: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9_]{1,63}$",
            description=(
                "Replication slot: lower-case letters, digits, underscores; default: tidemark_ and the capture's name"
            ),
            json_schema_extra=_without_default,
        ),
    ] = WITHOUT_A_NAME
    publication: Annotated[
        str,
        Field(
            min_length=1,
            max_length=63,
            description="Publication; default: the name of the slot",
            json_schema_extra=_without_default,
        ),
    ] = WITHOUT_A_NAME
    create: Annotated[
        bool,
        Field(description="Create the slot and the publication if missing, and add missing tables to the publication"),
    ] = True
    read_only: Annotated[bool, Field(description="Write nothing to the source, not even a log message")] = False
    on_lost_position: Annotated[
        Literal["fail", "backfill"],
        Field(description="If the server no longer has the required log: stop, or read all tables again"),
    ] = "fail"
    on_bad_value: Annotated[
        EndpointPolicy,
        Field(
            description="What to do with a value that a document cannot represent: an infinity, a year after 9999, …"
        ),
    ] = "stop"
    backfill: BackfillConfig = BackfillConfig()
    heartbeat_seconds: Annotated[
        float, Field(gt=0, description="Seconds between checkpoints of an idle capture; they advance the slot")
    ] = 10.0
    max_retained_wal: Annotated[
        Annotated[int, Field(gt=0)] | None,
        BeforeValidator(size_or_number, json_schema_input_type=int | str | None),
        Field(
            description="WAL that the slot may retain, in bytes or as '10GB'; a warning is logged from half of it on"
        ),
    ] = None
    truncate: TruncateOption = "auto"
    hash_salt: Annotated[Secret, Field(description="Salt prepended to each value before hashing")] = SecretStr("")

    @property
    def truncation(self) -> Truncation:
        """What a TRUNCATE becomes under the runtime that there is."""
        return truncation(self.truncate)


class ResourceConfig(Strict):
    """One table's configuration."""

    schema_name: Annotated[str, Field(alias="schema", min_length=1)]
    table: Annotated[str, Field(min_length=1)]
    scan: Annotated[
        Literal["key", "physical", "none"] | None,
        Field(
            description=(
                "Backfill in key order, by pages, or not at all; default: key, or physical for a table without a key"
            )
        ),
    ] = None
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
