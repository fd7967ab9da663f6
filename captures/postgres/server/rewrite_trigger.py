"""The optional event trigger that writes into the log which table an ALTER TABLE rewrites, and why.

It runs with every ALTER TABLE that rewrites a table, whoever runs it, and cannot fail one. Its message has the table's
oid and the reason, and never the statement, which may hold a password. Every user of the database may write such a
message, so one is a hint only: the catalogs decide.
"""

from __future__ import annotations

import logging
import re
from enum import Enum, IntFlag

import psycopg

from tidemark.protocol.logs import log_optional_sql

logger = logging.getLogger(__name__)

PREFIX = b"tidemark.table_rewrite"

_BODY = f"""
BEGIN
    PERFORM pg_catalog.pg_logical_emit_message(
        true, '{PREFIX.decode()}',
        c.oid::pg_catalog.text || ' ' || pg_catalog.pg_event_trigger_table_rewrite_reason()::pg_catalog.text)
    FROM pg_catalog.pg_class c
    WHERE c.oid = pg_catalog.pg_event_trigger_table_rewrite_oid() AND c.relkind = 'r' AND c.relpersistence <> 't';
EXCEPTION WHEN OTHERS THEN
    NULL; -- What is done to the table is more important than this message.
END;
"""

REMOVE = """\
DROP EVENT TRIGGER IF EXISTS tidemark_note_rewrite;
DROP FUNCTION IF EXISTS tidemark.note_rewrite();
"""
"""The statements that remove it. The schema stays, which may hold other things."""

# A function that somebody else made is not replaced but dropped: it would remain theirs.
SCRIPT = f"""\
BEGIN;
{REMOVE}\
CREATE SCHEMA IF NOT EXISTS tidemark;
CREATE FUNCTION tidemark.note_rewrite() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $tidemark${_BODY}$tidemark$;
CREATE EVENT TRIGGER tidemark_note_rewrite ON table_rewrite EXECUTE FUNCTION tidemark.note_rewrite();
ALTER EVENT TRIGGER tidemark_note_rewrite ENABLE ALWAYS;
COMMIT;
"""
"""Creates it, or replaces it by this version. A superuser runs it, in the captured database."""

_TO_REMOVE = "-- To remove it:\n" + "".join(f"--   {line}\n" for line in REMOVE.splitlines())

_COMMENTED = f"""\
-- When an ALTER TABLE rewrites a table, it writes the oid and the reason into the log, and never the statement.
-- Then a capture reads the rows again as soon as it reaches the ALTER TABLE, and `tidemark status` has the cause.
-- No ALTER TABLE fails because of it. A superuser, or the provider's administrator, runs this in the captured database,
-- on the primary.
{_TO_REMOVE}\
{SCRIPT}"""

_FOUND = """
SELECT e.evtenabled::text = 'A',
       e.evtevent = 'table_rewrite' AND e.evttags IS NULL AND p.prosrc = %s AND p.prosecdef
           AND l.lanname = 'plpgsql' AND p.proconfig = ARRAY['search_path=pg_catalog, pg_temp']
FROM pg_catalog.pg_event_trigger e
JOIN pg_catalog.pg_proc p ON p.oid = e.evtfoid
JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE e.evtname = 'tidemark_note_rewrite'
"""


class Trigger(Enum):
    """What there is of it in the database."""

    ABSENT = "absent"
    DISABLED = "disabled"
    """It does not run in every session."""
    OTHER = "other"
    """Another version of it."""
    PRESENT = "present"


def trigger_of(session: psycopg.Connection) -> Trigger:
    """The event trigger of the database. Raises psycopg.Error."""
    found = session.execute(_FOUND, [_BODY]).fetchone()
    if found is None:
        return Trigger.ABSENT
    always, same = found
    if not same:
        return Trigger.OTHER
    return Trigger.PRESENT if always else Trigger.DISABLED


def tell_of_trigger(session: psycopg.Connection) -> None:
    """Says whether the event trigger exists, and how to create it. Warns of one that does not do what it should.

    Raises psycopg.Error.
    """
    found = trigger_of(session)
    if found is Trigger.PRESENT:
        log_optional_sql(logger, "the event trigger tidemark_note_rewrite tells which tables are rewritten", _TO_REMOVE)
        return
    if found is Trigger.ABSENT:
        what = "there is no event trigger that tells which tables are rewritten, which nothing needs: see --fix-sql"
        log_optional_sql(logger, what, _COMMENTED)
        return
    if found is Trigger.DISABLED:
        text = "the event trigger tidemark_note_rewrite is disabled, or does not run in every session"
        remedy = "Run, as a superuser: ALTER EVENT TRIGGER tidemark_note_rewrite ENABLE ALWAYS;"
    else:
        text = "the event trigger tidemark_note_rewrite is not that of this version"
        remedy = "Run the script that `tidemark check FILE --fix-sql` prints, as a superuser."
        log_optional_sql(logger, "the event trigger tidemark_note_rewrite can be replaced", _COMMENTED)
    logger.warning("%s; the catalogs still tell of rewrites", text, extra={"code": "TM-PG-045", "remedy": remedy})


MOST = 10_000
"""How many relations of a transaction are remembered. The catalogs tell of the others."""

_CONTENT = re.compile(rb"([1-9][0-9]{0,9}) ([1-9][0-9]{0,8})")

# Message: 'M', flags, LSN, prefix and zero, length, content (PostgreSQL docs, logical replication message formats).
_FLAGS = 1
_PREFIX = 10
_TRANSACTIONAL = 1
_CONTENT_AT = _PREFIX + len(PREFIX) + 1 + 4


class Reason(IntFlag):
    """Why the server rewrites a table: ``pg_event_trigger_table_rewrite_reason`` (PostgreSQL docs, 9.30.3)."""

    PERSISTENCE = 1
    DEFAULT = 2
    COLUMN = 4
    ACCESS_METHOD = 8

    @property
    def text(self) -> str:
        """For people."""
        named = [text for reason, text in _TEXTS.items() if reason in self]
        return ", ".join(named) or f"reason {int(self)}"


_TEXTS = {
    Reason.PERSISTENCE: "its persistence changed",
    Reason.DEFAULT: "a column got a value in each row",
    Reason.COLUMN: "a column got another type or values by USING",
    Reason.ACCESS_METHOD: "it has another access method",
}


def note_rewrite(message: bytes, found: dict[int, Reason]) -> None:
    """Adds the reason that a logical message tells, by the oid of the relation.

    Passes over messages of others, and those that do not have the form of the trigger's.
    """
    if not message.startswith(PREFIX + b"\0", _PREFIX) or message[_FLAGS] != _TRANSACTIONAL:
        return
    if (told := _CONTENT.fullmatch(message, _CONTENT_AT)) is None:
        return
    oid, reason = map(int, told.groups())
    if oid in found or len(found) < MOST:
        found[oid] = found.get(oid, Reason(0)) | Reason(reason)
