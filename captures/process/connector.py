"""A connector process: requests on stdin, responses on stdout, log lines on stderr, and no other output."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import orjson

from tidemark.captures.contract.wakeup import Wakeup
from tidemark.captures.engine.engine import Capture
from tidemark.captures.engine.output import Output
from tidemark.captures.engine.requests import Requests, SessionRequests
from tidemark.captures.process.plan import make_plan
from tidemark.captures.readers.memory import bound_freed_memory, collect_rarely
from tidemark.captures.readers.reader_process import forked_readers, place
from tidemark.captures.scheduling.state import CaptureState
from tidemark.captures.server.table_database import Database, DatabaseFactory
from tidemark.captures.tables.collection import check_keys, check_state_keys
from tidemark.protocol.environment import KNOWN_STATE, STOP_WHEN_CAUGHT_UP, is_on
from tidemark.protocol.errors import ConnectorError, ProtocolError, TidemarkError
from tidemark.protocol.extras import missing_extra
from tidemark.protocol.logs import CONTROL, log_failure, log_to_stderr
from tidemark.protocol.messages import (
    Acknowledge,
    Applied,
    Apply,
    Binding,
    Control,
    Discover,
    Discovered,
    JsonObject,
    Message,
    Open,
    Opened,
    Request,
    Spec,
    SpecResponse,
    Validate,
    Validated,
    ValidatedBinding,
)
from tidemark.protocol.plan import BACKFILL_PLAN, PLAN

logger = logging.getLogger(__name__)


class Stopped(BaseException):
    """A signal asked the process to end. Not an Exception: no handler may treat it as a failure."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_status = 128 + signal_number


def main(database: DatabaseFactory, readme: Path) -> int:
    """Runs a connector on this process's stdin, stdout and stderr.

    Args:
        readme: The connector's page. The protocol requires an absolute URL: that of this file, unless ``DOCS_URL`` in
            the environment is set, by whoever publishes the connector.

    Returns:
        0 after an answered request or a clean end of a capture; 1 after an error, which is the last line on stderr.
    """
    log_to_stderr(os.environ.get("LOG_LEVEL", "info"))
    bound_freed_memory()
    collect_rarely()
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    # Output of Python itself or of a library must not mix with the messages.
    stdout = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        made = database()
        made.documentation_url = os.environ.get("DOCS_URL") or readme.resolve().as_uri()
        serve(made, Requests(sys.stdin.fileno()), Output(stdout))
        return 0
    except TidemarkError as error:
        log_failure(logger, error)
    except BrokenPipeError:
        log_failure(logger, ConnectorError("TM-CAP-001", "stdout was closed while a capture was running"))
    except Stopped as stopped:
        logger.debug("stopped by a signal")  # The sender of the signal knows the reason.
        return stopped.exit_status
    except Exception as error:  # The outermost edge: a defect of this connector ends in a clear line, too.
        logger.debug("unexpected error", exc_info=True)
        log_failure(logger, ConnectorError("TM-CAP-002", f"unexpected {type(error).__name__} at {place(error)}"))
    return 1


def end_without_driver(error: ModuleNotFoundError) -> NoReturn:
    """Ends the process with exit status 1, after a last line on stderr that names the extra to install.

    Raises:
        ModuleNotFoundError: The error itself, for a module that no extra brings.
    """
    missing = missing_extra(error)
    if missing is None:
        raise error
    log_to_stderr(os.environ.get("LOG_LEVEL", "info"))
    log_failure(logger, missing)
    sys.exit(1)


def serve(database: Database, requests: Requests, output: Output) -> None:
    """Answers requests until stdin or a capture ends."""
    while (request := requests.next()) is not None:
        if isinstance(request, Open):
            with forked_readers():
                capture(database, request, requests, output)
            return
        output.message(answer(database, request))


def answer(database: Database, request: Request) -> Message:
    """The response to a unary request."""
    if isinstance(request, Spec):
        return SpecResponse(
            config_schema=database.endpoint_config.model_json_schema(),
            resource_config_schema=database.resource_config.model_json_schema(),
            documentation_url=database.documentation_url,
            resource_path_pointers=database.resource_path_pointers,
        )
    if isinstance(request, Discover):
        return Discovered(bindings=database.discover(database.with_names(request.config, "", {})))
    if isinstance(request, Validate):
        check_keys(request.bindings, database.fallback_key)
        config = database.with_names(request.config, request.name, known_state())
        paths = database.validate(config, request.bindings)
        if is_on(PLAN):
            _plan(database, config, request.bindings)
        return Validated(bindings=[ValidatedBinding(resource_path=path) for path in paths])
    if isinstance(request, Apply):
        return Applied(action_description="")  # Objects that a capture needs at its source are created by ``open``.
    assert isinstance(request, Acknowledge | Control)
    raise ProtocolError("TM-PRO-004", f"{request.kind} was sent before open")


def capture(database: Database, request: Open, requests: Requests, output: Output) -> None:
    """Runs a capture session.

    Raises:
        ConnectorError: ``TM-CAP-011`` the session is for only a part of the keys; ``TM-CAP-012`` a collection has a key
            of earlier versions; ``TM-CAP-013`` two bindings have the same state key.
    """
    if not request.range.whole:
        raise ConnectorError("TM-CAP-011", "the session was opened for only a part of the key range")
    spec = request.capture
    check_keys(spec.bindings, database.fallback_key)
    check_state_keys(spec.bindings)
    source = database.open(database.with_names(spec.config, spec.name, request.state), spec.bindings)
    wakeup = Wakeup()
    following = SessionRequests(requests, wakeup)
    try:
        output.message(Opened(explicit_acknowledgements=True))
        state = CaptureState(request.state)
        logger.info("accepts commands while it captures", extra={"eventType": CONTROL, "handled": state.control})
        Capture(
            source,
            state,
            output,
            following,
            wakeup,
            stop_when_caught_up=is_on(STOP_WHEN_CAUGHT_UP),
            clock=time.monotonic,
        ).run()
    finally:
        following.close()
        source.close()
        wakeup.close()


def known_state() -> JsonObject:
    """The capture's position from the runtime; empty without one."""
    try:
        state = orjson.loads(os.environ.get(KNOWN_STATE, ""))
    except orjson.JSONDecodeError:
        return {}
    return state if isinstance(state, dict) else {}


def _plan(database: Database, config: JsonObject, bindings: Sequence[Binding]) -> None:
    """Writes the plan of a backfill to stderr, and writes nothing to the source."""
    with contextlib.closing(database.open(config, bindings, only_reads=True)) as source:
        plan = make_plan(source, time.monotonic)
    logger.info("planned %d tables", len(plan.tables), extra={"eventType": BACKFILL_PLAN, **plan.model_dump()})


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)
