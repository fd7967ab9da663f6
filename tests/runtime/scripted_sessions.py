"""Sessions and supervisors in the test's own process, with scripted connectors as real ones."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from tests.runtime.capture_folder import CaptureFolder
from tidemark.protocol.capture_file import CommitEntry
from tidemark.protocol.changelog import Commit
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.messages import Binding, CaptureSpec, Collection, Open
from tidemark.protocol.text.pointers import column_of
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.connector.conversation import Conversation
from tidemark.runtime.connector.process import ProcessConnector
from tidemark.runtime.connector.secrets import Redactor
from tidemark.runtime.connector.watchdog import Watchdog
from tidemark.runtime.preparation.prepared_capture import PreparedCapture
from tidemark.runtime.preparation.selection import SelectedTable
from tidemark.runtime.sessions.interruption import Interruption
from tidemark.runtime.sessions.session import Session
from tidemark.runtime.steering.steering import Steering
from tidemark.runtime.steering.waiting_commands import WaitingCommands

ROW_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"_meta": {"type": "object"}, "id": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}

AT_ONCE = CommitEntry(interval=0.001)
RARELY = CommitEntry(interval=3600.0)


class Recorder:
    """A display that remembers."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.notices: list[tuple[str, str]] = []
        self.commits: list[Commit] = []
        self.tables: list[str] = []
        self.committed_something = threading.Event()

    def log(self, line: LogLine) -> None:
        self.lines.append(line)

    def notice(self, level: str, message: str, **fields: Any) -> None:
        self.notices.append((level, message))

    def expect(self, tables: Iterable[str]) -> None:
        self.tables.extend(tables)

    def committed(self, commit: Commit, seconds: float) -> None:
        self.commits.append(commit)
        self.committed_something.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


def table(
    name: str = "public/t", schema: Mapping[str, Any] = ROW_SCHEMA, key: tuple[str, ...] = ("/id",)
) -> SelectedTable:
    """A table as the runtime selects it."""
    path = name.split("/")
    binding = Binding(
        resource_config={"schema": path[0], "table": path[1]},
        resource_path=path,
        collection=Collection(name=name, key=list(key), write_schema=dict(schema)),
        state_key=name.replace("/", "%2F"),
    )
    columns = tuple(column for pointer in key if (column := column_of(pointer)) is not None)
    return SelectedTable(".".join(path), binding, key=columns)


def prepared(folder: CaptureFolder, *tables: SelectedTable, secrets: Iterable[str] = ()) -> PreparedCapture:
    """The folder's connector, ready to be opened."""
    chosen = list(tables) or [table()]
    spec = CaptureSpec(name="shop", connector_type="LOCAL", bindings=[one.binding for one in chosen])
    connector = ProcessConnector(folder.command, folder.path)
    return PreparedCapture(connector, {}, Redactor(secrets), spec, chosen, "1")


def run_session(
    folder: CaptureFolder,
    *tables: SelectedTable,
    due: CommitEntry = AT_ONCE,
    display: Recorder | None = None,
    secrets: Iterable[str] = (),
    silence: float = 0,
    takes_batches: bool = False,
    until_caught_up: bool = False,
) -> Recorder:
    """One session from the log's state to its end."""
    display = display or Recorder()
    capture = prepared(folder, *tables, secrets=secrets)
    with LogWriter.open(folder.log_path, "shop") as writer, Interruption() as interruption:
        running = capture.connector.start(capture.environment)
        steering = Steering(WaitingCommands.of(folder.state, writer.store), writer.state, display)
        watchdog = Watchdog("connector", silence, 60)

        def heard(line: LogLine) -> None:
            watchdog.heard(line)
            display.log(line)

        with Conversation("connector", running, capture.redactor, heard) as talk:
            talk.send(Open(capture=capture.spec, version=capture.version, state=writer.state))
            Session(
                talk,
                "connector",
                writer,
                capture.tables,
                due,
                interruption,
                display,
                steering,
                None,
                watchdog,
                takes_batches=takes_batches,
                until_caught_up=until_caught_up,
            ).run()
    return display


def files(root: Path) -> set[str]:
    """Names of the segments on disk."""
    return {str(path.relative_to(root)) for path in (root / "data").rglob("*.parquet")}
