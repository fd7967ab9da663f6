"""MySQL and MariaDB as a connector: discovery, prerequisites, and the source of a capture."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.mysql.server.session import Session, asking, connect
from tidemark.captures.mysql.tables.bindings import captured_columns, shown_tables
from tidemark.captures.mysql.tables.catalog import read_tables
from tidemark.captures.mysql.tables.document_schema import document_schema
from tidemark.captures.mysql.tables.prerequisites import unmet
from tidemark.captures.mysql.terms.columns import Table
from tidemark.captures.mysql.terms.config import (
    EndpointConfig,
    ResourceConfig,
    parse_endpoint,
    parse_resource,
    replica_id_of,
)
from tidemark.captures.mysql.terms.position import parse_position
from tidemark.captures.mysql.values.types import form
from tidemark.captures.server.table_database import TableDatabase
from tidemark.captures.server.unmet import Unmet
from tidemark.captures.tables.bad_values import Policies
from tidemark.captures.tables.collection import discovered
from tidemark.captures.tables.table_binding import captured_as
from tidemark.captures.tables.truncation import Truncation
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding, DiscoveredBinding, JsonObject

if TYPE_CHECKING:
    from tidemark.captures.contract.source import RetainedLog
    from tidemark.captures.mysql.source import MysqlSource
    from tidemark.protocol.answers.removal import MadeObject

logger = logging.getLogger(__name__)

FALLBACK_KEY = ["/_meta/source/cursor"]
"""The key of a collection whose table has none."""


class MysqlDatabase(TableDatabase[EndpointConfig, ResourceConfig, Session]):
    """See ``TableDatabase``."""

    fallback_key = FALLBACK_KEY
    wrong_config = "TM-MY-023"
    several_unmet = "TM-MY-010"
    why_disabled = "it has no primary key: its entry must have a key or a scan"
    other_clock = "TM-MY-057"

    def named(self, config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
        return {**config, "server_id": config.get("server_id") or replica_id_of(config, capture)} if capture else config

    def endpoint(self, config: JsonObject) -> EndpointConfig:
        return parse_endpoint(config)

    def resource(self, config: JsonObject) -> ResourceConfig:
        return parse_resource(config)

    @contextlib.contextmanager
    def session(self, endpoint: EndpointConfig, what: str) -> Iterator[Session]:
        with contextlib.closing(connect(endpoint)) as session, asking(what):
            yield session

    def found(self, session: Session, endpoint: EndpointConfig) -> Iterable[DiscoveredBinding]:
        tables = read_tables(session)
        return [_discovered(table, endpoint) for table in tables if table.path != endpoint.watermark_path]

    def unmet(self, session: Session, endpoint: EndpointConfig, resources: Sequence[ResourceConfig]) -> Unmet:
        return unmet(session, endpoint, resources, shown_tables(session, resources))

    def standing(self, session: Session, endpoint: EndpointConfig, *, running: bool) -> Iterator[SourceError]:
        from tidemark.captures.mysql.log.resumption import continued

        cursor, identity = self._state.get("cursor"), self._state.get("source")
        if not cursor:
            return
        try:
            continued(session, endpoint, parse_position(str(cursor)), identity if isinstance(identity, dict) else {})
        except LostPosition as lost:
            if endpoint.on_lost_position == "fail":
                yield lost
            else:
                logger.warning("%s; all tables will be read again", lost.message, extra={"code": lost.code})
        except SourceError as error:
            yield error

    def retained(self, session: Session, endpoint: EndpointConfig) -> RetainedLog:
        from tidemark.captures.contract.source import RetainedLog
        from tidemark.captures.mysql.log.resumption import retained_from

        cursor = self._state.get("cursor")
        return retained_from(session, parse_position(str(cursor))) if cursor else RetainedLog(None)

    def made(self, session: Session, endpoint: EndpointConfig) -> list[MadeObject]:
        from tidemark.captures.mysql.chunks.fence import made_objects

        return made_objects(session, endpoint)

    def now(self, session: Session) -> float:
        ((seconds,),) = session.rows("SELECT UNIX_TIMESTAMP(NOW(6))")
        return float(seconds)

    def run(self, session: Session, statement: str, what: str) -> None:
        with asking(what):
            session.rows(statement)

    def source(self) -> type[MysqlSource]:
        from tidemark.captures.mysql.source import MysqlSource

        return MysqlSource

    def opened(
        self,
        endpoint: EndpointConfig,
        bindings: Sequence[Binding],
        resources: Sequence[ResourceConfig],
        *,
        only_reads: bool,
    ) -> MysqlSource:
        stored = self._state.get("bindings")
        states = stored if isinstance(stored, dict) else {}
        layouts = {
            key: state["layout"] for key, state in states.items() if isinstance(state, dict) and "layout" in state
        }
        return self.source()(endpoint, bindings, resources, only_reads=only_reads, layouts=layouts)


def _discovered(table: Table, endpoint: EndpointConfig) -> DiscoveredBinding:
    # A column of an unknown type has no schema. ``validate`` says that it must be excluded.
    captured = captured_as(captured_columns(table.columns), policies=Policies(endpoint.on_bad_value), key=table.key)
    columns = [column for column in captured if form(column) is not None]
    return discovered(
        path=table.path,
        closed_schema=document_schema(
            table,
            columns,
            table.key,
            truncates=endpoint.truncation is Truncation.EMIT,
            tinyint1_as_bool=endpoint.tinyint1_as_bool,
        ),
        key=table.key,
        fallback=FALLBACK_KEY,
        key_is_fallback=table.key_is_fallback,
        # A table without a key has no scan by key: it is disabled until its entry chooses another scan.
        disable=not table.key,
    )
