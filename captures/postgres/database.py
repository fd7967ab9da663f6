"""PostgreSQL as a connector: what it is, which tables there are, what must hold, what must be made."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.catalog.reading import read_tables
from tidemark.captures.postgres.server.config import (
    EndpointConfig,
    ResourceConfig,
    parse_endpoint,
    parse_resource,
    with_names,
)
from tidemark.captures.postgres.server.positions import LOC_PARTS, parse_lsn
from tidemark.captures.postgres.server.rewrite_trigger import tell_of_trigger
from tidemark.captures.postgres.server.session import LONG_ANSWER_SECONDS, asking, connect, despite_deadlocks
from tidemark.captures.postgres.server.slot_ownership import NOBODY, Owner
from tidemark.captures.postgres.tables.bindings import bound_tables, captured_columns
from tidemark.captures.postgres.tables.document_schema import document_schema
from tidemark.captures.postgres.tables.prerequisites import unmet
from tidemark.captures.postgres.tables.unsayable_names import unsayable_table
from tidemark.captures.server.table_database import TableDatabase
from tidemark.captures.server.unmet import Unmet
from tidemark.captures.tables.bad_values import Policies
from tidemark.captures.tables.collection import discovered
from tidemark.captures.tables.table_binding import captured_as
from tidemark.captures.tables.truncation import Truncation
from tidemark.protocol.environment import LOG_ID
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding, DiscoveredBinding, JsonObject

if TYPE_CHECKING:
    from tidemark.captures.contract.source import RetainedLog
    from tidemark.captures.postgres.source import PostgresSource
    from tidemark.protocol.answers.removal import MadeObject

logger = logging.getLogger(__name__)

FALLBACK_KEY = [f"/_meta/source/loc/{part}" for part in range(LOC_PARTS)]
"""The key of a collection whose table has none."""


class PostgresDatabase(TableDatabase[EndpointConfig, ResourceConfig, psycopg.Connection]):
    """See ``TableDatabase``."""

    fallback_key = FALLBACK_KEY
    wrong_config = "TM-PG-023"
    several_unmet = "TM-PG-010"
    why_disabled = "it has no primary key, and without REPLICA IDENTITY FULL the log does not identify its rows"
    other_clock = "TM-PG-046"

    def __init__(self) -> None:
        super().__init__()
        self._owner = NOBODY

    def named(self, config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
        self._owner = Owner(capture, os.environ.get(LOG_ID, ""))
        return with_names(config, capture, state)

    def endpoint(self, config: JsonObject) -> EndpointConfig:
        return parse_endpoint(config)

    def resource(self, config: JsonObject) -> ResourceConfig:
        return parse_resource(config)

    @contextlib.contextmanager
    def session(self, endpoint: EndpointConfig, what: str) -> Iterator[psycopg.Connection]:
        with connect(endpoint, LONG_ANSWER_SECONDS) as session, asking(what):
            yield session

    def found(self, session: psycopg.Connection, endpoint: EndpointConfig) -> Iterable[DiscoveredBinding]:
        found = []
        for table in read_tables(session):
            if (failure := unsayable_table(table)) is None:
                found.append(_discovered(table, endpoint))
                continue
            extra = {"code": failure.code, "remedy": failure.remedy}
            logger.warning("%s; it cannot be captured", failure.message, extra=extra)
        return found

    def unmet(
        self, session: psycopg.Connection, endpoint: EndpointConfig, resources: Sequence[ResourceConfig]
    ) -> Unmet:
        return unmet(session, endpoint, resources, bound_tables(session, resources, endpoint.publication))

    def standing(
        self, session: psycopg.Connection, endpoint: EndpointConfig, *, running: bool
    ) -> Iterable[SourceError]:
        from tidemark.captures.postgres.log.slot import standing_failures

        tell_of_trigger(session)
        return standing_failures(session, endpoint, self._owner, self._state, running=running)

    def retained(self, session: psycopg.Connection, endpoint: EndpointConfig) -> RetainedLog:
        from tidemark.captures.postgres.server.retention import Retention

        cursor = self._state.get("cursor")
        return Retention(endpoint).retained(session, parse_lsn(str(cursor)) if cursor else 0, "")

    def made(self, session: psycopg.Connection, endpoint: EndpointConfig) -> list[MadeObject]:
        from tidemark.captures.postgres.server.made_objects import made_objects

        return made_objects(session, endpoint, self._owner, self._state)

    def now(self, session: psycopg.Connection) -> float:
        (seconds,) = session.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone() or (0,)
        return float(seconds)

    def run(self, session: psycopg.Connection, statement: str, what: str) -> None:
        with asking(what):
            session.execute(statement.encode())

    def validate(self, config: JsonObject, bindings: Sequence[Binding]) -> list[list[str]]:
        return despite_deadlocks(partial(super().validate, config, bindings))

    def source(self) -> type[PostgresSource]:
        from tidemark.captures.postgres.source import PostgresSource

        return PostgresSource

    def opened(
        self,
        endpoint: EndpointConfig,
        bindings: Sequence[Binding],
        resources: Sequence[ResourceConfig],
        *,
        only_reads: bool,
    ) -> PostgresSource:
        if only_reads:
            endpoint = endpoint.model_copy(update={"read_only": True})
        return despite_deadlocks(partial(self.source(), endpoint, bindings, resources, self._owner))


def _discovered(table: Table, endpoint: EndpointConfig) -> DiscoveredBinding:
    columns = captured_as(captured_columns(table.columns), policies=Policies(endpoint.on_bad_value), key=table.key)
    truncates = endpoint.truncation is Truncation.EMIT
    return discovered(
        path=table.path,
        closed_schema=document_schema(table, columns, table.key, truncates=truncates),
        key=table.key,
        fallback=FALLBACK_KEY,
        key_is_fallback=table.key_is_fallback,
        # Once it is published, the server would refuse to update a table whose log cannot tell rows apart.
        disable=not table.key and table.replica_identity != "f",
    )
