"""Why a table's rows are read again, as the state and status lines have it: ``tidemark.protocol.log_lines.Reread``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from tidemark.captures.contract.in_words import in_words
from tidemark.captures.contract.table_changes import Cause, Consequence
from tidemark.protocol.log_lines import Reread, RereadCause

ASK = "Or set `on_alter: ask`: then a reread waits for `tidemark resume`."


def joined(before: Reread | None, causes: Iterable[Cause], at: str, *, put_off: bool = False) -> Reread:
    """The record after something happened to a table, at this position of the log.

    Args:
        before: The table's record. What it has is in the new one as well, unless that reread has ended.
        put_off: The reread waits for a command.
    """
    now = _now()
    known = {} if before is None or before.ended else {cause.name: cause for cause in before.causes}
    for cause in causes:
        columns = list(cause.columns)
        if (same := known.get(cause.name)) is not None:
            columns = list(dict.fromkeys([*same.columns, *columns]))
        known[cause.name] = RereadCause(
            name=cause.name,
            words=in_words(cause.name),
            columns=columns,
            at=at,
            time=now,
            emptied=cause.consequence is Consequence.EMPTIED,
            avoid=f"{cause.avoid} {ASK}" if cause.altered and not put_off else cause.avoid,
        )
    return Reread(causes=list(known.values()), put_off=put_off, begun="" if put_off else now)


def begun(reread: Reread | None) -> Reread | None:
    """The record once a command has the table read: what has happened to the table before it still counts."""
    return None if reread is None or reread.ended else Reread(causes=reread.causes, begun=_now())


def end(reread: Reread) -> None:
    """All rows were read."""
    if not reread.ended and not reread.put_off:
        reread.ended = _now()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
