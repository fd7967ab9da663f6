"""What an operator configures: the endpoint, with names of slot and publication where it has none, and each table."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr

from tidemark.captures.server.endpoint_config import Endpoint, Secret, parsed_endpoint
from tidemark.captures.tables.table_config import TableConfig, parsed_resource
from tidemark.protocol.messages import JsonObject
from tidemark.protocol.text.sizes import size_or_number

WITHOUT_A_NAME = "tidemark"

LONGEST = 63


def _without_default(schema: dict[str, Any]) -> None:
    """The default depends on the capture: a form that fills in what stands here would give all of them the same."""
    del schema["default"]


class EndpointConfig(Endpoint):
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
    on_partition_gone: Annotated[
        Literal["warn", "reread"],
        Field(description="When a partition is detached or dropped: keep its rows downstream, or read the table again"),
    ] = "warn"
    max_retained_wal: Annotated[
        Annotated[int, Field(gt=0)] | None,
        BeforeValidator(size_or_number, json_schema_input_type=int | str | None),
        Field(
            description="WAL that the slot may retain, in bytes or as '10GB'; a warning is logged from half of it on"
        ),
    ] = None


class ResourceConfig(TableConfig):
    """One table's configuration."""

    scan: Annotated[
        Literal["key", "physical", "none"] | None,
        Field(
            description=(
                "Backfill in key order, by pages, or not at all; default: key, or physical for a table without a key"
            )
        ),
    ] = None


def parse_endpoint(config: JsonObject) -> EndpointConfig:
    """Raises SourceError ``TM-PG-023`` that names every wrong field, never a value."""
    return parsed_endpoint(EndpointConfig, config, "TM-PG-023")


def parse_resource(config: JsonObject) -> ResourceConfig:
    """Raises SourceError ``TM-PG-023``."""
    return parsed_resource(ResourceConfig, config, "TM-PG-023")


def default_name(capture: str) -> str:
    """``tidemark_`` and the capture's name, in the characters that a slot may have. No two captures have the same."""
    if not capture:
        return WITHOUT_A_NAME
    fit = re.sub(r"[^a-z0-9_]", "_", capture.lower())
    name = f"{WITHOUT_A_NAME}_{fit}"
    if fit == capture and len(name) <= LONGEST:
        return name
    mark = hashlib.sha256(capture.encode()).hexdigest()[:8]
    return f"{name[: LONGEST - 9]}_{mark}"


def with_names(config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
    """The configuration with ``slot`` and ``publication``, which a capture that has begun takes from ``state``."""
    source = state.get("source")
    source = source if isinstance(source, dict) else {}
    slot = config.get("slot") or source.get("slot") or default_name(capture)
    publication = config.get("publication") or source.get("publication")
    if not publication:
        # Before captures had names at the server, this was the publication of all of them.
        publication = WITHOUT_A_NAME if source.get("slot") else slot
    return {**config, "slot": slot, "publication": publication}
