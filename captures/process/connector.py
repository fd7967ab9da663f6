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
from typing import TYPE_CHECKING

import orjson

from tidemark.captures.engine.output import Output
from tidemark.captures.engine.requests import Requests
from tidemark.captures.readers.memory import bound_freed_memory
from tidemark.captures.server.database_kind import DatabaseKind
from tidemark.captures.tables.collection import check_keys
from tidemark.protocol.environment import KNOWN_STATE, is_on
from tidemark.protocol.errors import ConnectorError, ProtocolError, TidemarkError
from tidemark.protocol.extras import missing_extra
from tidemark.protocol.logs import log_failure, log_to_stderr
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
    Request,
    Spec,
    SpecResponse,
    Validate,
    Validated,
    ValidatedBinding,
)
from tidemark.protocol.plan import BACKFILL_PLAN, PLAN

if TYPE_CHECKING:
    from tidemark.captures.server.table_database import Database

logger = logging.getLogger(__name__)


class Stopped(BaseException):
    """A signal asked the process to end. Not an Exception: no handler may treat it as a failure."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_status = 128 + signal_number


def main(kind: DatabaseKind, readme: Path) -> int:
    """Runs a connector on this process's stdin, stdout and stderr.

    Args:
        kind: Loads the database, which is imported once a request needs it.
        readme: The connector's page. The protocol requires an absolute URL: that of this file, unless ``DOCS_URL`` in
            the environment is set, by whoever publishes the connector.

    Returns:
        0 after an answered request or a clean end of a capture; 1 after an error, which is the last line on stderr.

    Raises:
        ModuleNotFoundError: A module is missing that no extra brings.
    """
    log_to_stderr(os.environ.get("LOG_LEVEL", "info"))
    bound_freed_memory()
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    # Output of Python itself or of a library must not mix with the messages.
    stdout = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        serve(kind, readme, Requests(sys.stdin.fileno()), Output(stdout))
        return 0
    except TidemarkError as error:
        log_failure(logger, error)
    except BrokenPipeError:
        log_failure(logger, ConnectorError("TM-CAP-001", "stdout was closed while a capture was running"))
    except Stopped as stopped:
        logger.debug("stopped by a signal")  # The sender of the signal knows the reason.
        return stopped.exit_status
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        log_failure(logger, missing)
    except Exception as error:  # The outermost edge: a defect of this connector ends in a clear line, too.
        from tidemark.captures.readers.reader_process import place

        logger.debug("unexpected error", exc_info=True)
        log_failure(logger, ConnectorError("TM-CAP-002", f"unexpected {type(error).__name__} at {place(error)}"))
    return 1


def serve(kind: DatabaseKind, readme: Path, requests: Requests, output: Output) -> None:
    """Answers requests until stdin or a capture ends.

    Each request mostly has a process of its own. So a request imports what it needs: ``spec`` and ``apply`` no driver,
    and only ``open`` the engine.
    """
    while (request := requests.next()) is not None:
        if isinstance(request, Spec):
            output.message(described(kind, readme))
        elif isinstance(request, Apply):
            output.message(Applied(action_description=""))  # ``open`` creates what a capture needs at its source.
        elif isinstance(request, Open):
            from tidemark.captures.process.session import run_session

            run_session(kind.database(), request, requests, output)
            return
        else:
            output.message(answer(kind.database(), request))


def described(kind: DatabaseKind, readme: Path) -> SpecResponse:
    """The answer to ``spec``."""
    return SpecResponse(
        config_schema=kind.endpoint_config.model_json_schema(),
        resource_config_schema=kind.resource_config.model_json_schema(),
        documentation_url=os.environ.get("DOCS_URL") or readme.resolve().as_uri(),
        resource_path_pointers=["/schema", "/table"],
    )


def answer(database: Database, request: Request) -> Message:
    """The response to a request that asks the server."""
    if isinstance(request, Discover):
        return Discovered(bindings=database.discover(database.with_names(request.config, "", {})))
    if isinstance(request, Validate):
        check_keys(request.bindings, database.fallback_key)
        config = database.with_names(request.config, request.name, known_state())
        paths = database.validate(config, request.bindings)
        if is_on(PLAN):
            _plan(database, config, request.bindings)
        return Validated(bindings=[ValidatedBinding(resource_path=path) for path in paths])
    assert isinstance(request, Acknowledge | Control)
    raise ProtocolError("TM-PRO-004", f"{request.kind} was sent before open")


def known_state() -> JsonObject:
    """The capture's position from the runtime; empty without one."""
    try:
        state = orjson.loads(os.environ.get(KNOWN_STATE, ""))
    except orjson.JSONDecodeError:
        return {}
    return state if isinstance(state, dict) else {}


def _plan(database: Database, config: JsonObject, bindings: Sequence[Binding]) -> None:
    """Writes the plan of a backfill to stderr, and writes nothing to the source."""
    from tidemark.captures.process.plan import make_plan

    with contextlib.closing(database.open(config, bindings, only_reads=True)) as source:
        plan = make_plan(source, time.monotonic)
    logger.info("planned %d tables", len(plan.tables), extra={"eventType": BACKFILL_PLAN, **plan.model_dump()})


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)
