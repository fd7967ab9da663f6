"""The answers to requests that ask the server, each in one response."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Sequence
from typing import Any

import orjson

from tidemark.captures.server.table_database import Database, DatabaseFactory
from tidemark.captures.tables.collection import check_keys
from tidemark.protocol.codec import encode, request_of
from tidemark.protocol.environment import KNOWN_STATE, PLAN, REMOVE, RETAINED, is_on
from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.messages import (
    Applied,
    Apply,
    Binding,
    Discover,
    Discovered,
    JsonObject,
    Message,
    Request,
    Validate,
    Validated,
    ValidatedBinding,
)

logger = logging.getLogger(__name__)


def answer(database: DatabaseFactory, kind: str, fields: Any) -> bytes:
    """The line that answers a request.

    Raises:
        ProtocolError: As ``request_of``; ``TM-PRO-004`` the request may only follow ``open``.
        SourceError: The server refuses.
    """
    return encode(_response(database, request_of(kind, fields)))


def _response(make: DatabaseFactory, request: Request) -> Message:
    if isinstance(request, Discover):
        database = make()
        return Discovered(bindings=database.discover(database.with_names(request.config, "", {})))
    if isinstance(request, Validate):
        database = make()
        check_keys(request.bindings, database.fallback_key)
        config = database.with_names(request.config, request.name, known_state())
        if is_on(RETAINED):
            database.tell_retained(config)
            return Validated(bindings=[])
        if is_on(REMOVE):
            database.tell_made(config)
            return Validated(bindings=[])
        paths = database.validate(config, request.bindings)
        if is_on(PLAN):
            _plan(database, config, request.bindings)
        return Validated(bindings=[ValidatedBinding(resource_path=path) for path in paths])
    if isinstance(request, Apply):
        database = make()
        spec = request.capture
        database.remove_made(database.with_names(spec.config, spec.name, known_state()))
        return Applied()
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
    from tidemark.captures.process.backfill_plan import make_plan
    from tidemark.protocol.answers.plan import BACKFILL_PLAN

    with contextlib.closing(database.open(config, bindings, only_reads=True)) as source:
        plan = make_plan(source, time.monotonic)
    logger.info("planned %d tables", len(plan.tables), extra={"eventType": BACKFILL_PLAN, **plan.model_dump()})
