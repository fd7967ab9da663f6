"""Debezium's embedded engine with a connector of its own: a JVM that writes change events as lines, and no more."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.peers.jars import jars
from benchmarks.source.postgres_server import config
from tidemark.testing.servers.mariadb import MariaDb
from tidemark.testing.servers.postgres_server import PostgresServer

VERSION = "3.6.1.Final"

NAME = "Debezium, lines alone"


class Debezium:
    """The engine, compiled.

    Args:
        connector: The last word of its library: ``postgres``, ``mysql`` or ``mariadb``.
        folder: For what it needs, and its lines.

    Raises:
        LookupError: It cannot be had; the message says why.
    """

    def __init__(self, connector: str, folder: Path) -> None:
        if shutil.which("javac") is None:
            raise LookupError("there is no Java compiler")
        names = ("debezium-api", "debezium-embedded", f"debezium-connector-{connector}")
        libraries = jars(*(f"io.debezium:{name}:{VERSION}" for name in names))
        self._folder = folder
        self._classes = ":".join([str(folder), *libraries])
        self.lines = folder / "debezium.jsonl"
        source = Path(__file__).with_name("Debezium.java")
        subprocess.run(["javac", "-cp", self._classes, "-d", folder, source], check=True)

    def of_postgres(self, server: PostgresServer, slot: str, rows: int, *, snapshot: bool) -> None:
        """Reads the table, or without ``snapshot`` the log from a slot on, until there are so many events."""
        at = config(server)
        self._run(rows, {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
            **{f"database.{name}": at[name] for name in ("user", "password")},
            "database.hostname": at["host"], "database.port": at["port"], "database.dbname": at["database"],
            "plugin.name": "pgoutput", "slot.name": slot, "publication.name": "bench",
            "publication.autocreate.mode": "disabled", "table.include.list": "public.bench",
            "snapshot.mode": "initial" if snapshot else "no_data",
        })  # fmt: skip

    def of_mysql(self, server: MariaDb, rows: int, place: Mapping[str, Any] | None = None) -> None:
        """Reads the table, or the log from a place on, as the engine keeps one, until there are so many events."""
        product = "mysql.MySql" if server.is_mysql else "mariadb.MariaDb"
        for name in ("offsets", "history"):
            (self._folder / name).unlink(missing_ok=True)
        offset = [] if place is None else [orjson.dumps({name: of for name, of in place.items() if of}).decode()]
        self._run(rows, {
            "connector.class": f"io.debezium.connector.{product}Connector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": self._folder / "offsets",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": self._folder / "history",
            "database.hostname": server.host, "database.port": server.port,
            "database.user": server.user, "database.password": server.password,
            "database.server.id": 78, "table.include.list": "bench.bench",
            "snapshot.mode": "initial" if place is None else "recovery",
        }, *offset)  # fmt: skip

    def check(self, ids: Sequence[int]) -> None:
        """Ends with an error unless the lines have rows of just these ids."""
        with self.lines.open("rb") as lines:
            found = sorted(orjson.loads(line)["after"]["id"] for line in lines)
        if found != sorted(ids):
            sys.exit(f"Debezium gave {len(found)} rows, not the {len(ids)} that there are")

    def _run(self, rows: int, settings: dict[str, Any], *offset: str) -> None:
        shared = {"name": "bench", "topic.prefix": "bench", "converter.schemas.enable": "false"}
        file = self._folder / "debezium.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in {**shared, **settings}.items()))
        command = ["java", "-cp", self._classes, "Debezium", str(file), str(self.lines), str(rows), *offset]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            sys.exit(f"Debezium failed: {ended.stderr[-2000:]}")
