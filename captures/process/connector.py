"""A connector process: requests on stdin, responses on stdout, log lines on stderr, and no other output."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import orjson

from tidemark.captures.engine.output import Output
from tidemark.captures.engine.request_lines import RequestLines
from tidemark.protocol.environment import REMOVE, REQUEST, is_on
from tidemark.protocol.errors import ConnectorError, TidemarkError
from tidemark.protocol.extras import missing_extra
from tidemark.protocol.logs import log_failure, log_to_stderr
from tidemark.protocol.process_memory import bound_freed_memory

if TYPE_CHECKING:
    from tidemark.captures.server.table_database import DatabaseFactory

logger = logging.getLogger(__name__)


class Stopped(BaseException):
    """A signal asked the process to end. Not an Exception: no handler may treat it as a failure."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_status = 128 + signal_number


APPLIED = b'{"applied":{"actionDescription":""}}\n'
"""The answer to ``apply``: ``open`` creates the objects that a capture needs at its source."""


def main(database: DatabaseFactory, folder: Path) -> int:
    """Runs a connector on this process's stdin, stdout and stderr.

    Args:
        database: Makes the database, and imports it first: not all requests need it.
        folder: Of the connector, with ``spec.json`` and ``README.md``.

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
        _expect(os.environ.get(REQUEST, ""), database)
        serve(database, folder, RequestLines(sys.stdin.fileno()), Output(stdout))
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


def leave(status: int) -> NoReturn:
    """Ends the process, and leaves its memory to the system.

    Python would first take apart every module and object: a sixth of the time of a request. Nothing here waits for
    that: sessions and threads are closed, and no handler is registered for the end.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # Nobody reads it any more.
            stream.flush()
    os._exit(status)


def _expect(kind: str, database: DatabaseFactory) -> None:
    """Imports what a request of this kind takes. A runtime that says which one will come may have started us early."""
    if kind in ("discover", "validate"):
        from tidemark.captures.process import answers  # noqa: F401

        database()
    elif kind == "open":
        from tidemark.captures.process import capture_session  # noqa: F401

        database().source()


def serve(database: DatabaseFactory, folder: Path, requests: RequestLines, output: Output) -> None:
    """Answers requests until stdin or a capture ends.

    Most processes answer one request. So each request imports what it needs: ``spec`` and ``apply`` no message and no
    driver, and only ``open`` the engine.
    """
    while (request := requests.next()) is not None:
        kind, fields = request
        if kind == "spec":
            output.message(spec(folder))
        elif kind == "apply" and not is_on(REMOVE):
            output.message(APPLIED)
        elif kind == "open":
            from tidemark.captures.process.capture_session import run_session

            run_session(database(), fields, requests, output)
            return
        else:
            from tidemark.captures.process.answers import answer

            output.message(answer(database, kind, fields))


def spec(folder: Path) -> bytes:
    """The answer to ``spec``, as ``spec.json`` has it.

    The protocol requires an absolute URL of a page: that of the connector's README, unless ``DOCS_URL`` in the
    environment is set, by whoever publishes the connector.
    """
    known = orjson.loads((folder / "spec.json").read_bytes())
    url = os.environ.get("DOCS_URL") or (folder / "README.md").resolve().as_uri()
    return orjson.dumps({"spec": {**known, "documentationUrl": url}}, option=orjson.OPT_APPEND_NEWLINE)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)
