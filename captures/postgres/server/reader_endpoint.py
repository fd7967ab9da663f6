"""The configuration that a reader's process needs, without the module that parses it, which is slow to import."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg import pq

from tidemark.captures.postgres.server.session import connect_pq_to, connect_to, conninfo

if TYPE_CHECKING:
    from tidemark.captures.postgres.config import EndpointConfig


@dataclass(frozen=True, slots=True)
class ReaderEndpoint:
    """The server, and how a reader of chunks connects to it. ``conninfo`` contains the password."""

    host: str
    port: int
    database: str
    user: str
    read_only: bool
    conninfo: str = field(repr=False)

    @classmethod
    def of(cls, config: EndpointConfig) -> Self:
        return cls(config.host, config.port, config.database, config.user, config.read_only, conninfo(config))

    def connect(self) -> psycopg.Connection:
        """An autocommit session. Raises as ``tidemark.captures.postgres.server.session.connect``."""
        return connect_to(self, self.conninfo)

    def connect_pq(self) -> pq.abc.PGconn:
        """A bare libpq connection. Raises as ``connect``."""
        return connect_pq_to(self, self.conninfo)
