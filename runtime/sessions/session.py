"""One session of a connector: its output becomes batches, batches become commits, and commits are acknowledged.

A commit ends only at a checkpoint. Documents and schemas since the last checkpoint belong to the next one; if the
connector ends before it, they are discarded like everything else that was not committed.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Mapping, Sequence
from functools import partial

from tidemark.protocol.capture_file import CommitEntry
from tidemark.protocol.changelog.models import QUARANTINE
from tidemark.protocol.codec import decode_response, split_captured
from tidemark.protocol.errors import ConnectorError, ProtocolError, TidemarkError
from tidemark.protocol.messages import (
    BackfillBegin,
    BackfillComplete,
    Checkpoint,
    JsonObject,
    Opened,
    Response,
    SourcedSchema,
)
from tidemark.runtime.changelog.documents.bound_collection import BoundCollection
from tidemark.runtime.changelog.documents.column_parts import column_parts
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.connector.conversation import Conversation
from tidemark.runtime.connector.watchdog import Watchdog
from tidemark.runtime.preparation.selection import SelectedTable
from tidemark.runtime.progress.display import Display
from tidemark.runtime.sessions.bound_table import TRUNCATED, BoundTable
from tidemark.runtime.sessions.captured_lines import CapturedLines
from tidemark.runtime.sessions.commit_timing import CommitTiming
from tidemark.runtime.sessions.committer import Committer
from tidemark.runtime.sessions.connector_state import changed_state
from tidemark.runtime.sessions.interruption import Interruption
from tidemark.runtime.sessions.output_cutter import ColumnBatch, OutputCutter
from tidemark.runtime.steering.capture_file_watch import CaptureFileWatch
from tidemark.runtime.steering.steering import Steering
from tidemark.runtime.verification.received_rows import ReceivedRows, Said

READ_BYTES = 1024 * 1024

FINISH_SECONDS = 10.0
"""How long a connector may run after its stdin has ended."""

LOOK_SECONDS = 0.5
"""The longest time between two checks for commands and for edits of the capture file."""


class Session:
    """Reads one opened connector to its end.

    Args:
        talk: The connector, to which ``open`` was sent.
        writer: The log; the session began from its state.
        tables: What was opened, in the order of the binding indices.
        due: When a commit is due.
        interruption: Ends the session between two steps.
        display: Shows each commit.
        steering: The commands for the connector.
        watch: After an edit of the capture file the connector is asked to end; None if the file is not watched.
        watchdog: Ends a session whose connector hangs.
        takes_batches: The connector was told that it may send batches of columns.
        until_caught_up: The connector ends once it is caught up.

    Attributes:
        advanced: Whether documents or a changed state were committed.
    """

    def __init__(
        self,
        talk: Conversation,
        name: str,
        writer: LogWriter,
        tables: Sequence[SelectedTable],
        due: CommitEntry,
        interruption: Interruption,
        display: Display,
        steering: Steering,
        watch: CaptureFileWatch | None,
        watchdog: Watchdog,
        *,
        takes_batches: bool = False,
        until_caught_up: bool = False,
    ) -> None:
        self._talk = talk
        self._name = name
        self._writer = writer
        self._timing = CommitTiming(due, until_caught_up=until_caught_up)
        self._interruption = interruption
        self._display = display
        self._steering = steering
        self._watch = watch
        self._watchdog = watchdog
        self._cutter = OutputCutter(batches=takes_batches)
        self._bound = [BoundTable(table, writer) for table in tables]
        self._captured = CapturedLines(len(tables))
        self._received = ReceivedRows(writer.store)
        self._lines_read = 0
        self._opened: Opened | None = None
        self._state: JsonObject = writer.state
        self._batch = self._in_flight = writer.begin()
        self._checkpoints = 0
        self._departed = [bound for bound in self._bound if bound.departed]
        self._inside_transaction = False
        self._has_begun = False  # The connector has sent a checkpoint.
        self._outdated_at: float | None = None
        self.advanced = False

    @property
    def outdated(self) -> bool:
        """Whether the connector was asked to end because the capture file was edited."""
        return self._outdated_at is not None

    @property
    def unfollowed(self) -> list[str]:
        """Tables that are still to be read again, because their events cannot be read with those before."""
        return [bound.table.name for bound in self._bound if bound.departed and self._steering.takes_commands]

    def run(self) -> None:
        """Returns after the connector ended cleanly, and all its output was committed.

        Raises:
            ConnectorError: It failed, was killed, or broke the protocol.
            ChangeLogError: The log cannot be written, or another writer took it.
            KeyboardInterrupt: A signal came.
        """
        with Committer(self._writer) as self._committer, selectors.DefaultSelector() as selector:
            for descriptor in (self._talk.stdout, self._committer.descriptor, self._interruption.descriptor):
                selector.register(descriptor, selectors.EVENT_READ)
            if self._watch is not None:
                selector.register(self._watch.descriptor, selectors.EVENT_READ)
            try:
                self._listen(selector)
            except TidemarkError:
                # A commit in flight counts once it is durable. If it fails, its error is the more serious one.
                if self._committer.busy:
                    self._take_commit()
                raise
            finally:
                self._received.close()
                self._batch.discard()

    def _listen(self, selector: selectors.BaseSelector) -> None:
        while True:
            ready = {key.fd for key, _ in selector.select(self._seconds_to_wait())}
            self._interruption.check()
            if self._committer.descriptor in ready:
                self._take_commit()
            if self._talk.stdout in ready:
                piece = os.read(self._talk.stdout, READ_BYTES)
                if not piece:
                    break
                self._timing.heard()
                self._read(piece)
                self._batch.settle()
                self._watchdog.said()
            else:
                self._watchdog.look()
            self._commit_if_due()
            self._look_around(selector, ready)
        self._end()

    def _steer(self) -> None:
        """Sends the commands that are due."""
        if self._departed and self._steering.takes_commands is not None:
            for bound in self._departed:
                if bound.departed:  # Otherwise it has begun to be read again meanwhile.
                    self._steering.read_again(bound.table.name, bound.departed)
            self._departed.clear()
        for command in self._steering.due():
            self._talk.send(command)

    def _look_around(self, selector: selectors.BaseSelector, ready: set[int]) -> None:
        self._steer()
        if self._watch is None:
            return
        if self._outdated_at is not None:
            if time.monotonic() - self._outdated_at > FINISH_SECONDS:
                raise ConnectorError(
                    "TM-RUN-017", f"{self._name} is still running {FINISH_SECONDS:.0f} s after stdin ended"
                )
            return
        self._watch.look()
        if self._watch.descriptor in ready:
            # The connector ends between two transactions. The next session opens the edited capture file.
            self._outdated_at = time.monotonic()
            selector.unregister(self._watch.descriptor)
            self._talk.finish()

    # Output of the connector.

    def _read(self, piece: bytes) -> None:
        try:
            for part in self._cutter.cut(piece):
                if isinstance(part, ColumnBatch):
                    self._add_columns(part)
                    self._lines_read += 1
                else:
                    self._take(part)
                    self._lines_read += len(part)
        except ProtocolError as error:
            raise self._broken(error, self._lines_read + 1) from None

    def _take(self, lines: list[bytes]) -> None:
        for run in self._captured.runs(lines):
            if not isinstance(run, bytes):
                self._add(*run)
                continue
            message = self._message(run, lines)
            if isinstance(message, tuple):
                self._add(message[0], [message[1]])
            else:
                self._control(message)

    def _message(self, line: bytes, lines: list[bytes]) -> tuple[int, bytes] | Response:
        """Decodes one of ``lines``: binding and document of a captured line in an unusual form, or the message."""
        try:
            return split_captured(line) or decode_response(line)
        except ProtocolError as error:
            before = next(number for number, other in enumerate(lines) if other is line)
            raise self._broken(error, self._lines_read + before + 1) from None

    def _add(self, index: int, documents: list[bytes], verified: bool = False) -> None:
        self._receive("verified" if verified else "captured")
        add = partial(self._received.documents, index) if verified else self._batch.add
        try:
            add(self._handle(index), documents)
        except ProtocolError as error:  # of these documents or of earlier ones
            raise self._broken(error) from None

    def _add_columns(self, batch: ColumnBatch) -> None:
        self._receive("capturedBatch")
        try:
            parts = column_parts(batch.line, batch.body, self._batch.next_offset)
            handles = [self._handle(part.binding) for part in batch.line.parts]
            if parts and (first := batch.line.parts[0]).kind == "verify":
                return self._received.columns(first.binding, handles[0], parts[0])
            self._batch.add_columns(list(zip(handles, parts, strict=True)), batch.line.events)
        except ProtocolError as error:  # of these columns or of earlier ones
            raise self._broken(error) from None

    def _receive(self, kind: str) -> None:
        if self._opened is None:
            raise ConnectorError("TM-RUN-005", f"{self._name} sent {kind} before opened")
        self._timing.begin()
        self._inside_transaction = True

    def _control(self, response: Response) -> None:
        if isinstance(response, Opened) and self._opened is None:
            self._opened = response
            self._watchdog.opened()
            if not response.explicit_acknowledgements:
                self._talk.finish()
            return
        if self._opened is None or not isinstance(
            response, Checkpoint | SourcedSchema | BackfillBegin | BackfillComplete | Said
        ):
            when = "before opened" if self._opened is None else "after opened"
            raise ConnectorError("TM-RUN-005", f"{self._name} sent {response.kind} {when}")
        if not isinstance(response, Checkpoint):
            self._inside_transaction = True
            bound = self._binding(response.binding)
            if isinstance(response, Said):
                name, index = bound.table.binding.collection.name, response.binding
                self._received.take(response, self._batch, name, bound.generation, partial(self._handle, index))
            elif isinstance(response, SourcedSchema):
                bound.learn(response.document_schema)
                # Those at the start are what the tables are now, perhaps ahead of the source's log.
                if self._has_begun:
                    bound.announce(self._batch)
            elif isinstance(response, BackfillComplete):
                bound.complete(self._batch)
            elif bound.begin(self._batch, response.why):
                self._add(response.binding, [TRUNCATED])
            return
        if response.state is not None:
            self._state = changed_state(self._name, self._state, response.state)
        self._timing.begin()
        self._has_begun = True
        self._inside_transaction = False
        self._checkpoints += 1
        self._commit_if_due()

    def _handle(self, index: int) -> BoundCollection:
        """Where the next documents of a binding go."""
        bound = self._binding(index)
        handle = bound.handle(self._batch)
        if handle.generation is None and bound not in self._departed:
            self._departed.append(bound)
        return handle

    def _binding(self, index: int) -> BoundTable:
        if index >= len(self._bound):
            raise ConnectorError(
                "TM-RUN-005", f"{self._name} sent binding {index}, but there are {len(self._bound)}, counted from 0"
            )
        return self._bound[index]

    # Commits.

    def _seconds_to_wait(self) -> float:
        """Seconds to wait for the connector before a commit or a check is due."""
        if not self._timing.begun or self._inside_transaction or self._committer.busy:
            return LOOK_SECONDS
        return min(LOOK_SECONDS, self._timing.remaining(self._bound))

    def _commit_if_due(self) -> None:
        if self._inside_transaction or not self._timing.begun:
            return
        full = self._timing.full(self._batch.bytes)
        # Whoever starts a capture waits for its first rows: they are not kept back for the sake of larger commits.
        begins_log = self._batch.first_offset == 0 and self._batch.events > 0
        if not full and not begins_log and self._timing.remaining(self._bound) > 0:
            return
        if self._committer.busy:
            if not full:
                return  # The batch continues to fill; the end of the commit in flight calls this again.
            self._wait_for_commit()  # Meanwhile the connector waits, because its pipe is full.
        self._commit()

    def _commit(self) -> None:
        """Commits the batch. No commit is in flight."""
        says = self._batch.events or self._batch.generations or self._batch.announced or self._writer.has_to_say
        if not says and self._state == self._writer.state:
            # An idle connector that was opened again sends only its schemas, and those are durable already.
            self._acknowledge(self._checkpoints)
            self._checkpoints = 0
            self._timing.end()
            return
        self._committer.start(self._batch, self._state, self._checkpoints, self._received.written())
        self._in_flight = self._batch
        self._batch = self._writer.begin()
        self._checkpoints = 0
        self._timing.end()

    def _wait_for_commit(self) -> None:
        with selectors.DefaultSelector() as selector:
            for descriptor in (self._committer.descriptor, self._interruption.descriptor):
                selector.register(descriptor, selectors.EVENT_READ)
            selector.select()
        self._interruption.check()
        self._take_commit()

    def _take_commit(self) -> None:
        try:
            commit = self._committer.result()
        except ProtocolError as error:
            raise self._broken(error) from None
        self._tell_quarantine(self._in_flight.quarantine.reasons)
        if commit.segments or commit.state.updated or not commit.state.merge_patch:
            self.advanced = True
        self._acknowledge(commit.checkpoints)
        self._steering.committed(self._writer.state)
        self._display.committed(commit, self._committer.seconds)

    def _acknowledge(self, checkpoints: int) -> None:
        if self._opened is not None and self._opened.explicit_acknowledgements and checkpoints:
            # Before it: a connector that has nothing else to do may end after it.
            self._steer()
            self._talk.acknowledge(checkpoints)

    def _tell_quarantine(self, reasons: Mapping[str, tuple[int, TidemarkError]]) -> None:
        for collection, (count, reason) in reasons.items():
            self._display.notice(
                "warning",
                f"{count} events of {collection.replace('/', '.')} are kept apart in {QUARANTINE}: {reason.message}",
                code=reason.code,
                remedy=reason.remedy,
            )

    # The end.

    def _end(self) -> None:
        ended = self._talk.end()
        if not ended.clean:
            raise self._talk.failure(ended)
        if self._cutter.inside:
            raise ConnectorError("TM-PRO-006", f"{self._name} exited in the middle of line {self._lines_read + 1}")
        if self._opened is None:
            raise ConnectorError("TM-RUN-004", f"{self._name} exited before it sent opened")
        if self._inside_transaction:
            raise ConnectorError("TM-RUN-004", f"{self._name} exited without a checkpoint after its last documents")
        if self._committer.busy:
            self._wait_for_commit()
        if self._timing.begun:
            self._commit()
        if self._committer.busy:
            self._wait_for_commit()

    def _broken(self, error: ProtocolError, line: int | None = None) -> ConnectorError:
        """The error for a defect in the connector's output, with the number of the line if that is known."""
        place = f", line {line} of its output" if line else ""
        return ConnectorError(error.code, f"{self._name}{place}: {error.message}", remedy=error.remedy)
