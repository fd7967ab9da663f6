"""A session of a capture in a connector process, from ``open`` to the end of the process."""

from __future__ import annotations

import logging
import time
from typing import Any

from tidemark.captures.contract.wakeup import Wakeup
from tidemark.captures.engine.engine import Capture
from tidemark.captures.engine.output import Output
from tidemark.captures.engine.request_lines import RequestLines
from tidemark.captures.engine.requests import SessionRequests
from tidemark.captures.readers.reader_process import forked_readers
from tidemark.captures.scheduling.state import CaptureState
from tidemark.captures.server.table_database import Database
from tidemark.captures.tables.collection import check_keys, check_state_keys
from tidemark.protocol.actions import Action
from tidemark.protocol.codec import encode, request_of
from tidemark.protocol.environment import STOP_WHEN_CAUGHT_UP, is_on
from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.logs import CONTROL
from tidemark.protocol.messages import Open, Opened
from tidemark.protocol.process_memory import collect_rarely

logger = logging.getLogger(__name__)


def run_session(database: Database, fields: Any, requests: RequestLines, output: Output) -> None:
    """Captures until the end of stdin, or until everything is captured.

    Args:
        fields: Of the request ``open``.

    Raises:
        ProtocolError: ``TM-PRO-003`` a wrong field.
        ConnectorError: ``TM-CAP-011`` the session is for only a part of the keys; ``TM-CAP-012`` a collection has a key
            of earlier versions; ``TM-CAP-013`` two bindings have the same state key.
        TidemarkError: As ``Capture.run``.
    """
    request = request_of("open", fields)
    assert isinstance(request, Open)
    database.source()  # Forks have what was imported before.
    collect_rarely()
    with forked_readers():
        _capture(database, request, requests, output)


def _capture(database: Database, request: Open, requests: RequestLines, output: Output) -> None:
    if not request.range.whole:
        raise ConnectorError("TM-CAP-011", "the session was opened for only a part of the key range")
    spec = request.capture
    check_keys(spec.bindings, database.fallback_key)
    check_state_keys(spec.bindings)
    source = database.open(database.with_names(spec.config, spec.name, request.state), spec.bindings)
    wakeup = Wakeup()
    following = SessionRequests(requests, wakeup)
    try:
        output.message(encode(Opened(explicit_acknowledgements=True)))
        state = CaptureState(request.state)
        fields = {"eventType": CONTROL, "handled": state.control, "actions": list(Action)}
        logger.info("accepts commands while it captures", extra=fields)
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
