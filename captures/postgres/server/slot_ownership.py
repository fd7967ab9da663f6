"""The owner of a replication slot, recorded in the comment of the publication that is read through the slot.

A slot has no comment, and its position does not tell who moved it there. Each slot has its own line in the comment of
the publication; other text in the comment stays. If the connector may not write the comment, the owner is unknown.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.session import APPLICATION_NAME
from tidemark.captures.postgres.server.setup import drop_slot
from tidemark.protocol.errors import SourceError

_LINE = re.compile(r'tidemark: slot (\S+) is read by capture ("(?:[^"\\]|\\.)*") into log (\S*)')

_COMMENT = "SELECT obj_description(oid, 'pg_publication') FROM pg_catalog.pg_publication WHERE pubname = %s"


@dataclass(frozen=True, slots=True)
class Owner:
    """A capture, by its name and the id of its change log. The runtime may give none: then they are empty.

    Attributes:
        application: The name of its stream at the server. By it a later process of the capture recognises a stream that
            an earlier one left, unless the runtime gives no log: a name alone may be that of several captures.
    """

    capture: str = ""
    log: str = ""

    @property
    def application(self) -> str:
        if not self.capture or not self.log:
            return APPLICATION_NAME
        return f"{APPLICATION_NAME} {hashlib.sha256(f'{self.capture} {self.log}'.encode()).hexdigest()[:16]}"

    def line(self, slot: str) -> str:
        return f"tidemark: slot {slot} is read by capture {json.dumps(self.capture)} into log {self.log}"


NOBODY = Owner()


def owner_of(session: psycopg.Connection, config: EndpointConfig) -> Owner | None:
    """The recorded owner of the slot; None without a record. Raises psycopg.Error."""
    return _owners(_lines(session, config)).get(config.slot)


def other_slots(session: psycopg.Connection, config: EndpointConfig) -> list[str]:
    """The other slots whose owners are recorded in the publication. Raises psycopg.Error."""
    return [slot for slot in _owners(_lines(session, config)) if slot != config.slot]


def note_owner(session: psycopg.Connection, config: EndpointConfig, owner: Owner) -> bool:
    """Records the owner. Returns False if the user may not comment on the publication. Raises psycopg.Error."""
    others = [line for line in _lines(session, config) if config.slot not in _owners([line])]
    comment = "\n".join([*others, owner.line(config.slot)])
    statement = sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(
        sql.Identifier(config.publication), sql.Literal(comment)
    )
    try:
        session.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


def check_owner(session: psycopg.Connection, config: EndpointConfig, owner: Owner, *, begun: bool) -> None:
    """Checks that an existing slot belongs to this capture.

    Args:
        begun: The capture has a state. Without a state, and with a known log, the slot must be recorded as its own.

    Raises:
        SourceError: ``TM-PG-040`` it is another capture's; ``TM-PG-041`` it was made for another change log, or nobody
            knows for what.
        psycopg.Error: The server refuses.
    """
    found = owner_of(session, config)
    if found is None:
        if not begun and owner.log and config.create:
            raise _of_before(config, owner, "its owner is not recorded")
        return
    if found.capture != owner.capture:
        raise SourceError(
            "TM-PG-040",
            f"replication slot {config.slot} belongs to capture {found.capture!r}, this is capture {owner.capture!r}",
            remedy=(
                "Configure another `slot` for this capture, or none: by default it has the capture's name. If "
                f"the other capture is no longer needed, drop its slot: {drop_slot(config).as_string(None)};"
            ),
        )
    if owner.log and found.log and found.log != owner.log:
        raise _of_before(config, owner, f"it was created for change log {found.log}")


def _of_before(config: EndpointConfig, owner: Owner, reason: str) -> SourceError:
    return SourceError(
        "TM-PG-041",
        f"replication slot {config.slot} already exists, and change log {owner.log} of capture {owner.capture!r} did "
        f"not begin with it: {reason}",
        remedy=(
            "If another capture reads the slot, configure another `slot`. If the capture has run before, restore its "
            "change log, or point `log` at it. To start over, drop the slot: "
            f"{drop_slot(config).as_string(None)}; If the slot was created by hand for this capture, set "
            "`create: false`."
        ),
    )


def _lines(session: psycopg.Connection, config: EndpointConfig) -> list[str]:
    row = session.execute(_COMMENT, [config.publication]).fetchone()
    return str(row[0]).splitlines() if row is not None and row[0] else []


def _owners(lines: Sequence[str]) -> dict[str, Owner]:
    """Those that lines record, by slot."""
    found = filter(None, map(_LINE.fullmatch, lines))
    return {match[1]: Owner(json.loads(match[2]), match[3]) for match in found}
