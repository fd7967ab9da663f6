"""``tidemark tail``: events of one table from the log, as JSON lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import UsageError
from tidemark.protocol.text.nearest_names import near
from tidemark.protocol.text.visible import visible_json
from tidemark.runtime.commands.terminal.arguments import LogArgument, open_log

POLL_SECONDS = 0.1

TableOption = Annotated[str, typer.Option("--table", "-t", metavar="T", help="The table, as schema.table.")]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="OFFSET|TIME",
        help=(
            "Where to begin: an offset, the time of a commit to the log (ISO 8601, UTC unless it has an "
            "offset), earliest, or latest. Default: earliest, with --follow latest."
        ),
        show_default=False,
    ),
]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Stop after this many events.", show_default=False)]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Wait for new events until you stop it.")]


def tail(
    log: LogArgument,
    table: TableOption,
    start: FromOption = None,
    limit: LimitOption = None,
    follow: FollowOption = False,
) -> None:
    """Print the events of a table, one JSON object per line: its columns, then _op, _offset, _commit_ts and so on."""
    change_log = open_log(log)
    first = start_offset(change_log, start or ("latest" if follow else "earliest"))
    if not follow:
        _require_table(change_log, table)
    for line in islice(lines(change_log, table.replace("/", "."), first, follow=follow), limit):
        sys.stdout.write(visible_json(line.decode("utf-8", "replace")) + "\n")
        if follow:
            sys.stdout.flush()
    sys.stdout.flush()


def start_offset(log: ChangeLog, place: str) -> int:
    """The offset that ``--from`` means.

    Raises:
        UsageError: ``TM-CFG-007`` when it is none of the forms.
    """
    if place == "earliest":
        return log.start()
    if place == "latest":
        return log.end()
    if place.isdecimal():
        return int(place)
    try:
        moment = datetime.fromisoformat(place)
    except ValueError:
        raise UsageError("TM-CFG-007", f"--from {place} is not an offset, a time, earliest or latest") from None
    return log.offset_at(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def lines(log: ChangeLog, table: str, start: int, *, follow: bool) -> Iterator[bytes]:
    """Events of ``table`` from offset ``start`` on; when following, waits for more instead of ending."""
    from tidemark.runtime.changelog.events import (  # Takes long to load; only this command needs it.
        json_line,
        segment_events,
    )

    number = log.commit_with_offset(start)
    while True:
        newest = log.latest()
        for commit in log.commits(number, newest):
            for segment in commit.segments:
                if segment.collection.replace("/", ".") != table or segment.last_offset < start:
                    continue
                schema = log.schema(segment.fingerprint)
                for event in segment_events(log, segment):
                    if event["_offset"] >= start:
                        yield json_line(event, schema)
        number = max(number, newest + 1)
        if not follow:
            return
        time.sleep(POLL_SECONDS)


def _require_table(log: ChangeLog, table: str) -> None:
    known = [name.replace("/", ".") for name in log.summary().totals]
    if table.replace("/", ".") not in known:
        raise UsageError("TM-CFG-007", f"{log.store.place} has no events of a table {table}{near(table, known)}")
