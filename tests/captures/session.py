"""A connector process at the other end of a pipe, driven by hand: requests in, messages out."""

from __future__ import annotations

import fcntl
import json
import os
import queue
import resource
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from tests.captures.column_batches import Batches
from tests.captures.column_identities import Document, LoggedColumns, Replayed, State
from tests.warm_process import WarmProcess, is_warm
from tidemark.captures.mysql.database import MysqlDatabase
from tidemark.captures.postgres.database import PostgresDatabase
from tidemark.captures.server.table_database import Database, DatabaseFactory
from tidemark.protocol.codec import decode_request, split_captured
from tidemark.protocol.messages import Apply, CaptureSpec
from tidemark.protocol.state import merge_patch
from tidemark.testing.deadline import PATIENCE, pause

Message = dict[str, Any]
Json = dict[str, Any]
Process = subprocess.Popen[bytes] | WarmProcess

DOCUMENTS = 1000
"""That a session takes at most before it looks at what is waited for."""

COMMAND = [sys.executable, "-m", "tidemark.connectors.postgres"]
DATABASES: dict[str, DatabaseFactory] = {
    "tidemark.connectors.postgres": PostgresDatabase,
    "tidemark.connectors.mysql": MysqlDatabase,
}


def unary(
    request: Json | str | bytes, env: dict[str, str] | None = None, *, command: Sequence[str] = COMMAND
) -> tuple[int, list[Message], list[Message]]:
    """Runs the connector on one request as a shell pipe would: exit status, messages, log lines."""
    line = (
        request
        if isinstance(request, bytes)
        else (request if isinstance(request, str) else json.dumps(request) + "\n").encode()
    )
    variables = {**os.environ, **(env or {})}
    if is_warm(command):
        status, stdout, stderr = WarmProcess(command, variables).run(line, timeout=60)
    else:
        done = subprocess.run(command, input=line, capture_output=True, env=variables, timeout=60, check=False)
        status, stdout, stderr = done.returncode, done.stdout, done.stderr
    return status, _parsed(stdout), _parsed(stderr)


def error_fields(logs: list[Json]) -> Json:
    """The fields of the last log line, which says what ended the process."""
    last = logs[-1]
    assert last["level"] == "error"
    fields: Json = last["fields"]
    assert fields["remedy"] and fields["policy"] in ("retry", "manual")
    assert fields["documentation"].startswith("docs/errors.md#tm-")
    return fields


def bindings(*tables: str, **resource: Any) -> list[Json]:
    """Bindings of tables given as ``schema.table``."""
    made = []
    for table in tables:
        schema, name = table.split(".")
        made.append(
            {
                "resourceConfig": {"schema": schema, "table": name, **resource},
                "resourcePath": [schema, name],
                "collection": {"name": f"{schema}/{name}"},
                "stateKey": f"{schema}%2F{name}",
            }
        )
    return made


class ConnectorEnded(AssertionError):
    """The process ended before what was waited for."""


class Late(AssertionError):
    """The time was over before what was waited for."""


@dataclass
class Skimmed:
    """Documents that went by, their bytes, and how many other messages came among them."""

    documents: int = 0
    size: int = 0
    interruptions: int = 0


class Session:
    """One capture session. Everything captured since the last checkpoint is pending, as a runtime sees it.

    Attributes:
        documents: Checkpointed documents, as (binding, document).
        schemas: Checkpointed schemas, as (binding, schema).
        events: Both, the begins and ends of backfills, and what comes of verifications, in the order in which they
            came, as ("doc", "schema" or the kind of the message, binding, body).
        state: The reduced state of the last checkpoint.
        checkpoints: How many came.
        logs: Log lines so far.
        texts: Documents as they came, with their bindings, where a test makes it a list.
        batches: How many batches of columns came, and what they left out.
    """

    def __init__(self, process: Process, state: Json, *, ours: bool = True) -> None:
        self.process = process
        self._columns: dict[int, LoggedColumns] = state.logs if isinstance(state, State) else {}
        self.state = State(dict(state), self._columns)
        self._ours = ours
        self._resumed = bool(state.get("bindings"))
        self.documents: list[tuple[int, Json]] = []
        self.schemas: list[tuple[int, Json]] = []
        self.events: list[tuple[str, int, Json]] = []
        self.checkpoints = 0
        self.logs: list[Message] = []
        self.texts: list[tuple[int, bytes]] | None = None
        assert process.stdout is not None
        self.batches = Batches(process.stdout)
        self._pending: list[tuple[str, int, Json]] = []
        self._unacknowledged = 0
        self._taking = threading.Event()
        self._taking.set()
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._read_logs)]
        for thread in self._threads:
            thread.start()

    def until(self, condition: Callable[[Session], Any], seconds: float = 60, *, acknowledge: bool = True) -> None:
        """Takes messages until ``condition`` holds; fails when the process ends or the time is over first.

        The condition is looked at after what is no document, after many documents, and in every silence: documents
        count from their checkpoint on. Some conditions compare whole tables: those are looked at less often, and
        messages are taken meanwhile.
        """
        seconds *= PATIENCE
        deadline = time.monotonic() + seconds
        while True:
            asked = time.monotonic()
            if condition(self):
                return
            now = time.monotonic()
            try:
                self._take_some(deadline, seconds, acknowledge, now + pause(now - asked))
            except (ConnectorEnded, Late):
                if condition(self):  # Since it was looked at last.
                    return
                raise

    def _take_some(self, deadline: float, seconds: float, acknowledge: bool, at_least_until: float) -> None:
        """Takes messages until one is no document, many were, or none comes, and for so long."""
        while True:
            for _ in range(DOCUMENTS):
                if not self._take_next(deadline, seconds, acknowledge):
                    break
            if time.monotonic() >= at_least_until:
                return

    def _take_next(self, deadline: float, seconds: float, acknowledge: bool) -> bool:
        """Takes the next message, if one comes at once. Whether it was a document."""
        if time.monotonic() >= deadline:
            raise Late(f"not within {seconds} s; last log lines: {self.last_words()}")
        try:
            line = self._lines.get(timeout=0.05)
        except queue.Empty:
            return False
        if line is None:
            self._lines.put(None)  # For whoever asks again.
            self._await_last_log_line()
            raise ConnectorEnded(f"the connector ended: {self.last_words()}")
        return self._take(line, acknowledge=acknowledge)

    def skim(self, last: bytes, seconds: float = 60) -> Skimmed:
        """Takes messages up to the document that holds ``last``, and keeps none of the documents before it."""
        seconds *= PATIENCE
        deadline = time.monotonic() + seconds
        seen = Skimmed()
        while True:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            assert line is not None, f"the connector ended: {self.last_words()}"
            if last in line or split_captured(line) is None:
                self._take(line, acknowledge=True)
                if last in line:
                    return seen
                seen.interruptions += seen.documents > 0
            else:
                seen.documents += 1
                seen.size += len(line)

    def finish(self, seconds: float = 60) -> int:
        """Takes everything until the process ends, and returns its exit status."""
        seconds *= PATIENCE
        deadline = time.monotonic() + seconds
        while (line := self._lines.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
            self._take(line, acknowledge=True)
        status = self.process.wait(timeout=60)
        self._await_last_log_line()
        return status

    def _await_last_log_line(self) -> None:
        """Of a connector that has ended it may still be on its way."""
        self._threads[1].join(timeout=60)

    def send(self, message: Json | bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hold(self) -> None:
        """Reads no more of what the connector writes, until ``let_go``."""
        self._taking.clear()

    def let_go(self) -> None:
        """The end of ``hold``."""
        self._taking.set()

    @property
    def full(self) -> bool:
        """Whether the pipe from the connector takes no more: pages of which a write left a rest stay as they are."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        held = int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
        return held > fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) - resource.getpagesize()

    @property
    def pending(self) -> int:
        """Documents and schemas after the last checkpoint."""
        return len(self._pending)

    def acknowledge(self) -> None:
        """Acknowledges every checkpoint that came."""
        if self._unacknowledged:
            with _ignoring_broken_pipe():
                self.send({"acknowledge": {"checkpoints": self._unacknowledged}})
            self._unacknowledged = 0

    def done(self) -> bool:
        """Whether the state says that every backfill is over."""
        states = self.state.get("bindings", {}).values()
        return bool(states) and all(state["scan"].get("done") for state in states)

    def rows(self, binding: int = 0, key: Sequence[str] = ("id",), *, whole: bool = False) -> Rows:
        """What replaying the checkpointed documents of a binding gives; ``whole`` as of ``Replayed.rows``."""
        return replay((doc for index, doc in self.documents if index == binding), key, whole=whole)

    def read(self, binding: int = 0) -> int:
        """How many rows chunks brought."""
        of_binding = (doc["_meta"]["source"] for index, doc in self.documents if index == binding)
        return sum(bool(source.get("snapshot")) for source in of_binding)

    def last_words(self) -> str:
        """The last log lines, in short."""
        last = [line for line in self.logs if line.get("eventType") != "connectorStatus"][-3:]
        return "; ".join(
            f"{line['level']} {line.get('fields', {}).get('code', '')}: {line['message']}" for line in last
        )

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.kill()
        self.process.wait(timeout=60)
        self.let_go()
        for thread in self._threads:
            thread.join(timeout=60)
        with _ignoring_broken_pipe():
            self.process.stdin.close()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _take(self, line: bytes, *, acknowledge: bool) -> bool:
        """Takes a message. Whether it was a document."""
        cut = split_captured(line)
        if cut is not None:
            self._pending.append(("doc", cut[0], json.loads(cut[1])))
            if self.texts is not None:
                self.texts.append((cut[0], bytes(cut[1])))
            return True
        message = json.loads(line)
        if "sourcedSchema" in message:
            body = message["sourcedSchema"]
            self._pending.append(("schema", body.get("binding", 0), body["documentSchema"]))
        elif message.keys() & {"backfillBegin", "backfillComplete"}:
            ((kind, body),) = message.items()
            binding = body.get("binding", 0)
            self._pending.append((kind, binding, {}))
            if kind == "backfillBegin" and self._ours and self._has(binding):
                # The runtime keeps what it has until the new rows are whole. Here they replace it at once.
                self._pending.append(("doc", binding, {"_meta": {"op": "t", "source": {}}}))
        elif message.keys() & {"verified", "verifyBegin", "verifyChunk", "verifyEnd"}:
            ((kind, body),) = message.items()
            self._pending.append((kind, body.get("binding", 0), body))
        elif "checkpoint" in message:
            for kind, binding, body in self._pending:
                log = self._columns.setdefault(binding, LoggedColumns())
                if kind == "doc":
                    self.documents.append((binding, Document(body, log)))
                    if body["_meta"]["op"] == "t":
                        log.empty()
                elif kind == "schema":
                    self.schemas.append((binding, body))
                    log.take(body)
            self.events += self._pending
            self._pending.clear()
            self.checkpoints += 1
            self._unacknowledged += 1
            change = message["checkpoint"]["state"]
            assert change["mergePatch"]
            self.state = State(merge_patch(dict(self.state), change["updated"]), self._columns)
            if acknowledge:
                self.acknowledge()
        else:
            assert message == {"opened": {"explicitAcknowledgements": True}}, message
        return False

    def _has(self, binding: int) -> bool:
        """Whether there may be documents of a binding, of this session or of an earlier one."""
        pending = ((index, body) for kind, index, body in self._pending if kind == "doc")
        return self._resumed or any(index == binding for index, _ in chain(self.documents, pending))

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._taking.wait()
            if line.endswith(b"\n"):  # Whoever ends the process from outside may leave its last line cut.
                for taken in self.batches.take(line):
                    self._lines.put(taken)
        self._lines.put(None)

    def _read_logs(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.logs.append(json.loads(line))


@contextmanager
def session(
    config: Json,
    bound: list[Json],
    state: Json | None = None,
    *,
    stop: bool = False,
    command: Sequence[str] = COMMAND,
    env: dict[str, str] | None = None,
) -> Iterator[Session]:
    """Opens a capture, with ``env`` besides the environment; kills it at the end."""
    variables = {**os.environ, "TIDEMARK_STOP_WHEN_CAUGHT_UP": "1" if stop else "", **(env or {})}
    pipe = subprocess.PIPE
    process = (
        WarmProcess(command, variables)
        if is_warm(command)
        else subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=variables)
    )
    opened = Session(process, state or {}, ours=variables.get("TIDEMARK_RUNTIME", "") not in ("", "0"))
    try:
        capture = {"name": "test", "config": config, "bindings": bound}
        opened.send({"open": {"capture": capture, "version": "1", "state": dict(state or {})}})
        yield opened
    finally:
        opened.close()


def cold(command: Sequence[str]) -> list[str]:
    """The command of a connector that is no fork of a warm process: one whose memory is its own."""
    python, *rest = command
    return [python, "-u", *rest]


def apply(config: Json, bound: list[Json], *, command: Sequence[str] = COMMAND) -> None:
    """Makes what the capture needs at the source (slot and publication), as its first session does.

    In this process: for most tests this comes before what they are about, and a process takes a while to start.
    """
    database = DATABASES[command[-1]]()
    request = {"apply": {"capture": {"name": "test", "config": config, "bindings": bound}}}
    decoded = decode_request(json.dumps(request).encode())
    assert isinstance(decoded, Apply)
    named = database.with_names(config, decoded.capture.name, {})
    begin(database, msgspec.structs.replace(decoded.capture, config=named))


def begin(database: Database, capture: CaptureSpec) -> None:
    """Opens a new capture, and ends it before it has said anything."""
    with closing(database.open(capture.config, capture.bindings)) as source:
        source.open_log(source.start_position(None, None)).close()


Rows = dict[tuple[Any, ...], Json]
"""A table's rows by their keys."""


def replay(documents: Iterable[Json], key: Sequence[str], *, whole: bool = False) -> Rows:
    """The rows after all documents, which come in order.

    Args:
        key: The names of the key's columns.
        whole: As of ``Replayed.rows``.
    """
    replayed = Replayed(key)
    for document in documents:
        replayed.take(document)
    return replayed.rows(whole=whole)


def _parsed(output: bytes) -> list[Message]:
    return [json.loads(line) for line in output.splitlines()]


@contextmanager
def _ignoring_broken_pipe() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        return  # The process is gone, and with it whoever would have read what was left in the buffer.
