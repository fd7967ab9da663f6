"""Reads the log of some tables, through the source that a connector opens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import Any

from tests.captures.log_reader import LogReader
from tests.captures.session import begin
from tests.captures.source_tables import end_of_log
from tidemark.captures.postgres.database import PostgresDatabase
from tidemark.captures.postgres.log.connection import LIMITS, StreamLimits
from tidemark.captures.postgres.log.stream import PgoutputLog
from tidemark.captures.postgres.server.config import parse_endpoint, parse_resource
from tidemark.captures.postgres.source import PostgresSource
from tidemark.protocol.messages import Binding, CaptureSpec
from tidemark.testing.servers.postgres import Database

PostgresLog = LogReader[PostgresSource, PgoutputLog]


def binding(table: str, **resource: Any) -> Binding:
    """A binding of ``public.table``."""
    return Binding(
        resource_config={"schema": "public", "table": table, **resource},
        resource_path=["public", table],
        state_key=f"public%2F{table}",
    )


@contextmanager
def capturing(
    database: Database,
    *tables: str,
    limits: StreamLimits = LIMITS,
    resource: Mapping[str, Any] = MappingProxyType({}),
    **config: Any,
) -> Iterator[PostgresLog]:
    """Applies a capture of these tables, opens it, and reads its log from the slot's position on.

    Args:
        resource: Options of every table.
    """
    bound = [binding(table, **resource) for table in tables]
    settings = {**database.config(), "slot": database.name[-60:], **config}
    begin(PostgresDatabase(), CaptureSpec(config=settings, bindings=bound))
    resources = [parse_resource(one.resource_config) for one in bound]
    with closing(PostgresSource(parse_endpoint(settings), bound, resources, limits=limits)) as source:
        source.identity()
        log = source.open_log(source.start_position(None, None))
        with closing(LogReader(source, log, end=lambda: end_of_log(database), reconnects=True)) as reader:
            yield reader
