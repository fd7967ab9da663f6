"""A folder with a capture file, a scripted connector and a change log, and the ``tidemark`` command run on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.runtime.logged_events import events
from tests.warm_process import WarmProcess, run_to_its_end
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import HEADER
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.progress.state_folder import StateFolder

CONNECTOR = Path(__file__).with_name("scripted_connector.py")

OPENED: dict[str, Any] = {"message": {"opened": {"explicitAcknowledgements": True}}}
TABLE: dict[str, Any] = {"name": "public/t"}

Step = Mapping[str, Any]


def error_line(message: str, **fields: str) -> Step:
    """Writes an error to stderr: the reason why a connector ends, if that is the next step."""
    return {"stderr": json.dumps({"level": "error", "message": message, "fields": fields})}


class CaptureFolder:
    """Everything of one test's capture, in ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "capture.yaml"
        self.log_path = path / "shop.log"
        self.write_file()

    def write_file(self, **entries: Any) -> None:
        """Writes the capture file: a capture of the scripted connector, with ``entries`` instead of or besides."""
        content = {
            "capture": "shop",
            "connector": {"command": self.command},
            "log": "./shop.log",
            "commit": {"interval": "50ms"},
            **entries,
        }
        self.file.write_text(yaml.safe_dump(content, sort_keys=False))

    @property
    def command(self) -> list[str]:
        # Without what installed packages do when Python starts: it needs none.
        return [sys.executable, "-I", "-S", str(CONNECTOR), str(self.path)]

    def script(self, *sessions: Sequence[Step], tables: Sequence[Mapping[str, Any]] = (TABLE,), **more: Any) -> None:
        """Writes what the connector is to do; see ``scripted_connector``."""
        (self.path / "script.json").write_text(json.dumps({"tables": tables, "sessions": sessions, **more}))

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs ``tidemark``, at most a minute; with variables of its own as users start it, since imports read some."""
        command = [sys.executable, "-m", "tidemark.runtime", *arguments]
        if not environment:
            return run_to_its_end(command, folder=self.path)
        return subprocess.run(
            command,
            cwd=self.path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def start(self, *arguments: str) -> WarmProcess:
        """Starts ``tidemark``, its stderr going to the file ``stderr``."""
        command = [sys.executable, "-m", "tidemark.runtime", *arguments]
        return WarmProcess(command, os.environ, self.path, stderr=self.path / "stderr")

    @property
    def stderr(self) -> str:
        return (self.path / "stderr").read_text()

    def requests(self, kind: str) -> list[dict[str, Any]]:
        """The requests of one kind that the connector got, the id of its process among them."""
        path = self.path / "requests.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        return [{"pid": request["pid"], **request[kind]} for request in found if kind in request]

    def connector_pid(self) -> int | None:
        """The process of the newest session, None before there is one."""
        opened = self.requests("open")
        return int(opened[-1]["pid"]) if opened else None

    @property
    def state(self) -> StateFolder:
        return StateFolder.of_file(self.file)

    @property
    def state_path(self) -> Path:
        path = self.state.path
        assert path is not None
        return path

    @property
    def log_store(self) -> DirectoryStore:
        return DirectoryStore(self.log_path)

    @property
    def log(self) -> ChangeLog:
        return ChangeLog(self.log_path)

    @property
    def is_begun(self) -> bool:
        """Whether something was committed besides a writer's claim."""
        return (self.log_path / HEADER).exists() and self.log.summary().next_offset > 0

    def ids(self, table: str = "public/t") -> list[int]:
        """The ids of a table's events, in the order of the log."""
        return [event["id"] for event in events(self.log, table)]


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that has ended and waits to be collected is not running."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
