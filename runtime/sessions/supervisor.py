"""Runs the sessions of a capture: opens the next when one ends, until the capture is done or an error is final."""

from __future__ import annotations

import random
import time
from dataclasses import replace

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential, wait_random

from tidemark.protocol.batches import ARROW
from tidemark.protocol.capture_file import CommitEntry
from tidemark.protocol.environment import BATCHES
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import ChangeLogError, ConnectorError, TidemarkError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.messages import Open
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.connector.conversation import Conversation
from tidemark.runtime.connector.watchdog import Watchdog
from tidemark.runtime.preparation.prepared_capture import PreparedCapture
from tidemark.runtime.progress.display import Display
from tidemark.runtime.sessions.connector_state import changed_state
from tidemark.runtime.sessions.interruption import Interruption
from tidemark.runtime.sessions.owned_log import OwnedLog
from tidemark.runtime.sessions.session import Session
from tidemark.runtime.steering.capture_file_watch import CaptureFileWatch
from tidemark.runtime.steering.steering import Steering
from tidemark.runtime.steering.waiting_commands import WaitingCommands

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 60.0

MOST_FAILURES = 10
"""The most failures in a row, without a commit in between, of a connector that gives no reason. A connector whose error
is to be retried, such as a database that is down, is retried without a limit."""

REFUSED_SECONDS = 300.0
"""How long a secret may be refused that was accepted before: whoever rotates it changes it here and there in turn."""

UNEXPLAINED = frozenset({"TM-RUN-002", "TM-RUN-003", "TM-RUN-004", "TM-RUN-009", "TM-PRO-006"})


class Supervisor:
    """Runs sessions of one capture.

    Args:
        prepared: The capture to open.
        log: Opens the log. Every session begins from its state. After a failed write it is opened again.
        due: When a commit is due.
        until_caught_up: A clean end of the connector ends the capture; otherwise it is opened again.
        watch: Reports edits of the capture file; None if it is not watched.
        commands: Commands to the capture; by default those that its state folder or its log has.
    """

    def __init__(
        self,
        prepared: PreparedCapture,
        log: OwnedLog,
        due: CommitEntry,
        interruption: Interruption,
        display: Display,
        *,
        until_caught_up: bool,
        watch: CaptureFileWatch | None = None,
        commands: WaitingCommands | None = None,
        first_delay_seconds: float = FIRST_DELAY_SECONDS,
    ) -> None:
        self._prepared = prepared
        self._log = log
        self._due = due
        self._interruption = interruption
        self._display = display
        self._until_caught_up = until_caught_up
        self._watch = watch
        self._commands = commands
        self._outdated = False
        self._unfollowed: list[str] = []
        self._watchdog = _watchdog(prepared)
        self._first_delay = first_delay_seconds
        self._refused_since: float | None = None

    def run(self) -> None:
        """Returns when the connector has caught up, with ``until_caught_up``.

        Raises:
            ConnectorError: A person must act first; ``TM-RUN-010`` the connector failed too often.
            ChangeLogError: The log cannot be written.
            KeyboardInterrupt: A signal came.
        """
        with self._interruption.deferred():
            self._run()

    def _run(self) -> None:
        unfollowed = 0
        while True:
            attempts = Retrying(
                retry=retry_if_exception(self._passes),
                stop=_hopeless,
                wait=wait_exponential(self._first_delay, LONGEST_DELAY_SECONDS) + wait_random(0, self._first_delay),
                sleep=self._interruption.sleep,
                before_sleep=self._tell,
                retry_error_callback=_give_up,
            )
            opened = time.monotonic()
            if not attempts(self._open_once) or self._outdated:
                continue
            if self._unfollowed and unfollowed < MOST_FAILURES:
                # The connector had caught up before it was asked to read a table again.
                unfollowed += 1
                continue
            if self._until_caught_up and self._unfollowed:
                name = self._prepared.connector.name
                raise ConnectorError("TM-RUN-020", f"{name} has not read {', '.join(self._unfollowed)} again")
            if self._until_caught_up:
                return
            unfollowed = 0
            interval = self._prepared.spec.interval_seconds  # The shortest time between two opens.
            self._interruption.sleep(max(0.0, opened + interval - time.monotonic()))

    def _open_once(self) -> bool:
        """Runs one session. True: it ended cleanly. False: it failed after a commit, so failures are counted again."""
        if self._watch is not None and (edition := self._watch.take()) is not None:
            self._prepared, self._due = edition.prepared, edition.due
            self._watchdog = _watchdog(edition.prepared)
            self._display.expect(table.name for table in self._prepared.tables)
        prepared, writer = self._prepared.with_secrets_of_now(), self._log.writer()
        name = prepared.connector.name
        self._keep_applied(writer)
        commands = self._commands or WaitingCommands.of(self._log.folder, writer.store)
        steering, watchdog = Steering(commands, writer.state, self._display), self._watchdog
        watchdog.opening()
        running = prepared.connector.start(prepared.environment, session=writer.store.identity)

        def heard(line: LogLine) -> None:
            steering.heard(line)
            watchdog.heard(line)
            self._display.log(line)

        with Conversation(name, running, prepared.redactor, heard) as talk:
            talk.send(Open(capture=prepared.spec, version=prepared.version, state=writer.state))
            session = Session(
                talk,
                name,
                writer,
                prepared.tables,
                self._due,
                self._interruption,
                self._display,
                steering,
                self._watch,
                watchdog,
                takes_batches=prepared.environment.get(BATCHES) == ARROW,
                until_caught_up=self._until_caught_up,
            )
            try:
                session.run()
            except TidemarkError as error:
                if isinstance(error, ChangeLogError):
                    self._log.drop_writer()
                    error = self._log.explained(error)
                if session.advanced:
                    self._refused_since = None
                if not session.advanced or not self._passes(error):
                    raise error from None
                failure = error
            else:
                self._outdated = session.outdated
                self._unfollowed = session.unfollowed
                self._refused_since = None
                return True
        delay = self._first_delay * random.uniform(1, 2)
        self._say(failure, delay)
        self._interruption.sleep(delay)
        return False

    def _keep_applied(self, writer: LogWriter) -> None:
        """Commits the change of state from ``apply`` before a session begins."""
        change = self._prepared.applied
        if change is None:
            return
        state = changed_state(self._prepared.connector.name, writer.state, change)
        try:
            writer.commit(writer.begin(), state, 0)
        except ChangeLogError as error:
            self._log.drop_writer()
            raise self._log.explained(error) from None
        self._prepared = replace(self._prepared, applied=None)

    def _passes(self, error: BaseException) -> bool:
        """Whether the next session may succeed."""
        if not isinstance(error, TidemarkError):
            return False
        if not error.entry.secret:
            return error.entry.policy is Policy.RETRY
        now = time.monotonic()
        self._refused_since = now if self._refused_since is None else self._refused_since
        return now - self._refused_since < REFUSED_SECONDS

    def _tell(self, attempt: RetryCallState) -> None:
        assert attempt.outcome is not None and attempt.next_action is not None  # there is one, and it is to sleep
        error = attempt.outcome.exception()
        assert isinstance(error, TidemarkError)
        self._say(error, attempt.next_action.sleep)

    def _say(self, error: TidemarkError, delay: float) -> None:
        self._display.notice(
            "warning",
            f"{error.message}; opening it again in {delay:.1f} s from the last commit",
            code=error.code,
            remedy=error.remedy,
            retry_seconds=round(delay, 1),
        )


def _watchdog(prepared: PreparedCapture) -> Watchdog:
    return Watchdog(prepared.connector.name, prepared.silence_seconds, prepared.answer_seconds)


def _hopeless(attempt: RetryCallState) -> bool:
    error = attempt.outcome.exception() if attempt.outcome else None
    return attempt.attempt_number >= MOST_FAILURES and isinstance(error, TidemarkError) and error.code in UNEXPLAINED


def _give_up(attempt: RetryCallState) -> bool:
    assert attempt.outcome is not None
    last = attempt.outcome.exception()
    assert isinstance(last, TidemarkError)
    raise ConnectorError(
        "TM-RUN-010",
        f"{attempt.attempt_number} attempts in a row ended without a commit; the last one: {last}",
        remedy=last.remedy,
    ) from None
