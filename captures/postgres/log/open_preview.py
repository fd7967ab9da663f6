"""What prevents a capture from resuming: the errors that ``open`` would raise, without creating anything."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

import psycopg

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.postgres.log.left_stream import in_use
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.captures.postgres.server.resumption import Slot, check_log, check_slot, read_server_log, read_slot
from tidemark.captures.postgres.server.slot_ownership import Owner, check_owner
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

logger = logging.getLogger(__name__)


def standing_failures(
    session: psycopg.Connection, config: EndpointConfig, owner: Owner, state: JsonObject, *, running: bool
) -> Iterator[SourceError]:
    """Every error that prevents it now.

    Args:
        state: The small members of the capture's state; empty before its first start.
        running: The capture is running, and holds its slot.

    Raises:
        psycopg.Error: The server refuses to be asked.
    """
    slot = read_slot(session, config.slot)
    cursor = state.get("cursor")
    checks: list[Callable[[], None]] = []
    if slot is not None:
        checks.append(partial(check_owner, session, config, owner, begun=bool(cursor)))
        if not running:
            checks.append(partial(_check_free, session, config, owner, slot.active_pid))
    if cursor:
        checks.append(partial(_check_position, session, config, slot, parse_lsn(str(cursor)), state))
    for check in checks:
        try:
            check()
        except LostPosition as lost:
            if config.on_lost_position == "fail":
                yield lost
            else:
                logger.warning("%s; all tables will be read again", lost.message, extra={"code": lost.code})
        except SourceError as error:
            yield error


def _check_position(
    session: psycopg.Connection, config: EndpointConfig, slot: Slot | None, position: int, state: JsonObject
) -> None:
    identity = state.get("source")
    if isinstance(identity, dict) and identity:
        check_log(read_server_log(config), slot, position, identity)
    check_slot(session, config, slot, position, position)


def _check_free(session: psycopg.Connection, config: EndpointConfig, owner: Owner, reader: int | None) -> None:
    if reader is not None:
        raise in_use(session, config, owner, reader)
