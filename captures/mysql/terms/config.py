"""The configuration: the endpoint, and each table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from tidemark.captures.server.endpoint_config import Endpoint, Secret, parsed_endpoint
from tidemark.captures.tables.table_config import TableConfig, parsed_resource
from tidemark.protocol.messages import JsonObject

_Upper = BeforeValidator(lambda text: text.upper() if isinstance(text, str) else text)

SslMode = Literal["DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"]


class EndpointConfig(Endpoint):
    """The connector's configuration."""

    host: Annotated[str, Field(min_length=1, description="Host name, address, or path of the server's socket")]
    port: Annotated[int, Field(ge=1, le=65535)] = 3306
    user: str
    password: Secret = SecretStr("")
    ssl_mode: Annotated[
        SslMode,
        _Upper,
        Field(
            description=(
                "Encryption: only VERIFY_CA and VERIFY_IDENTITY authenticate the server; VERIFY_IDENTITY also "
                "checks its name"
            )
        ),
    ] = "PREFERRED"
    ssl_ca: Annotated[
        str | None, Field(description="File with the certificates of the authorities; default: the system's")
    ] = None
    ssl_cert: Annotated[str | None, Field(description="File with the client's certificate")] = None
    ssl_key: Annotated[str | None, Field(description="File with the private key of the client's certificate")] = None
    server_id: Annotated[
        int | None,
        Field(
            ge=1,
            le=4294967295,
            description="The server_id under which the connector registers as a replica: unique; derived by default",
        ),
    ] = None
    watermark_table: Annotated[
        str | None,
        Field(
            pattern=r"^[^.`]+\.[^.`]+$",
            description="schema.table that the connector may create and write to; required on MySQL without GTIDs",
        ),
    ] = None
    tinyint1_as_bool: Annotated[bool, Field(description="Read columns declared tinyint(1) as true and false")] = False
    on_statement: Annotated[
        Literal["set_aside", "warn"],
        Field(description="What to do with tables that a statement in the log may have changed without row events"),
    ] = "set_aside"
    on_partition_gone: Annotated[
        Literal["warn", "reread"],
        Field(description="When a partition is dropped: keep its rows downstream, or read the table again"),
    ] = "reread"

    @model_validator(mode="after")
    def _certificates(self) -> Self:
        if self.ssl_ca is not None and not self.ssl_mode.startswith("VERIFY_"):
            raise ValueError("ssl_ca has an effect only with ssl_mode VERIFY_CA or VERIFY_IDENTITY")
        if (self.ssl_cert is None) != (self.ssl_key is None):
            raise ValueError("ssl_cert and ssl_key must be set together")
        if self.ssl_cert is not None and self.ssl_mode in ("DISABLED", "PREFERRED"):
            raise ValueError("ssl_cert needs ssl_mode REQUIRED, VERIFY_CA or VERIFY_IDENTITY")
        return self

    @property
    def where(self) -> str:
        """The server, for messages."""
        return self.host if self.host.startswith("/") else f"{self.host}:{self.port}"

    @property
    def watermark_path(self) -> tuple[str, str] | None:
        """Schema and name of the watermark table."""
        if self.watermark_table is None:
            return None
        schema, _, name = self.watermark_table.partition(".")
        return schema, name


class ResourceConfig(TableConfig):
    """One table's configuration."""

    scan: Annotated[
        Literal["key", "snapshot", "none"],
        Field(description="Backfill in key order, in one transaction (for a table without a key), or not at all"),
    ] = "key"


def parse_endpoint(config: JsonObject) -> EndpointConfig:
    """Raises SourceError ``TM-MY-023`` that names every wrong field, never a value."""
    return parsed_endpoint(EndpointConfig, config, "TM-MY-023")


def parse_resource(config: JsonObject) -> ResourceConfig:
    """Raises SourceError ``TM-MY-023``."""
    return parsed_resource(ResourceConfig, config, "TM-MY-023")


def replica_id(config: EndpointConfig, resources: Sequence[ResourceConfig]) -> int:
    """The server_id by which we register as a replica: the configured one, or else a stable one.

    The server drops a replica when another one registers with the same id. So the id is derived from the server, the
    user and the tables: captures that differ in one of these have different ids.
    """
    if config.server_id is not None:
        return config.server_id
    tables = sorted("\0".join(resource.path) for resource in resources)
    return _derived_id(config.host, str(config.port), config.user, *tables)


def replica_id_of(config: JsonObject, capture: str) -> int:
    """The server_id of a capture with a name: two captures of the same tables must have different ones."""
    place = [str(config.get(name, "")) for name in ("host", "port", "user")]
    return _derived_id("capture", *place, capture)


def _derived_id(*parts: str) -> int:
    digest = hashlib.sha256("\1".join(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") | 0x40000000  # People choose small numbers: this is none.
