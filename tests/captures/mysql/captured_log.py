"""Reads the log of some tables, through the source that a connector opens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from tests.captures.log_reader import LogReader
from tidemark.captures.mysql.log.connection import LIMITS, StreamLimits
from tidemark.captures.mysql.log.stream import BinlogLog
from tidemark.captures.mysql.source import MysqlSource
from tidemark.captures.mysql.terms.config import parse_endpoint, parse_resource
from tidemark.protocol.fields import message_of
from tidemark.protocol.messages import Binding
from tidemark.testing.servers.mariadb import Database


class CapturedLog(LogReader[MysqlSource, BinlogLog]):
    """Those of a database, bound with the same options."""

    def __init__(
        self,
        database: Database,
        *tables: str,
        cursor: str | None = None,
        identity: dict[str, Any] | None = None,
        exclude: Sequence[str] = (),
        hash: Sequence[str] = (),
        on_bad_value: str | dict[str, str] = "stop",
        key: Sequence[str] | None = None,
        scan: str | None = None,
        limits: StreamLimits = LIMITS,
        **config: Any,
    ) -> None:
        self.database = database
        options: dict[str, Any] = {"exclude": list(exclude), "hash": list(hash), "on_bad_value": on_bad_value}
        if key is not None:
            options["key"] = list(key)
        if scan is not None:
            options["scan"] = scan
        resources = [{"schema": database.name, "table": table, **options} for table in tables]
        bindings = [
            message_of(
                Binding,
                {
                    "collection": {"name": f"acme/{table}", "key": ["/id"]},
                    "resourceConfig": resource,
                    "resourcePath": [database.name, table],
                    "stateKey": table,
                },
            )
            for table, resource in zip(tables, resources, strict=True)
        ]
        source = MysqlSource(
            parse_endpoint({**database.config(), **config}),
            bindings,
            [parse_resource(r) for r in resources],
            limits=limits,
        )
        super().__init__(source, source.open_log(source.start_position(cursor, identity or source.identity())))

    def close(self) -> None:
        super().close()
        self.source.close()


def captured_log(database: Database, *tables: str, **options: Any) -> closing[CapturedLog]:
    return closing(CapturedLog(database, *tables, **options))
