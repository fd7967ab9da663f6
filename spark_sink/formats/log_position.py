"""Where a table stands in the change log: whether that is this log, and whether the table lacks anything of it."""

from __future__ import annotations

from tidemark.protocol.changelog import Summary
from tidemark.protocol.changelog.models import CollectionTotals
from tidemark.protocol.changelog.shown import Shown
from tidemark.protocol.errors import ChangeLogError, SparkError
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.positions import Position
from tidemark.spark_sink.source.followed_log import FollowedLog


def position_at(log: FollowedLog, collection: str, shown: Shown | None, end: int) -> Position:
    """The position of a table that has what is shown below a commit's end; all events if that is None."""
    generation, over = (shown.newest.number, shown.over) if shown else (0, 0)
    return Position(end, log.mark(end), generation, _events(log.summary_at(end), collection, generation), over)


def complete_to(
    table: PositionedTable, log: FollowedLog, collection: str, summary: Summary, shown: Shown | None
) -> int:
    """The offset below which a kept table lacks no event: its position, or the end of a summary.

    The summary has as many events of the table as there are below its position, or more. So no commit is read to know
    that a table is complete that has had no event for long.

    Args:
        table: The kept table.
        log: That it is kept from.
        collection: Of the table.
        summary: The log's.
        shown: What the table is to have by then; None for a table of events.
    """
    if not table.exists or not table.position:
        return 0
    standing = table.standing
    applied = standing.events
    if applied < 0 and standing.offset >= log.start():
        applied = _events(log.summary_at(standing.offset), collection, standing.generation)
    is_newest = standing.generation == (shown.newest.number if shown else 0)
    is_complete = is_newest and 0 <= applied == _events(summary, collection, standing.generation)
    return summary.next_offset if is_complete else standing.offset


def check_reach(table: PositionedTable, log: FollowedLog, collection: str, shown: Shown | None) -> None:
    """Makes sure that the log still has all events that a table lacks.

    Args:
        table: The kept table.
        log: That it is kept from.
        collection: Of the table.
        shown: What the table is to have; None for a table of events.

    Raises:
        ChangeLogError: ``TM-LOG-018`` when it does not.
    """
    start = log.start()
    if not table.exists or not table.position or table.position >= start:
        return
    standing = table.standing
    if shown is not None and not shown.goes_on_from(standing.generation, standing.over):
        return  # It is built again, from a later generation.
    if _events(log.summary(log.log_start.number - 1), collection, standing.generation) == standing.events:
        return  # None of those that went is one of this table.
    name = collection.replace("/", ".")
    raise ChangeLogError(
        "TM-LOG-018",
        f"{table.place} has the events of {name} before offset {standing.offset:,}, but {log.at} begins at {start:,}",
        remedy=(
            f"To begin with what the log has: tidemark materialize FILE --rebuild {name}. The table as it is stays "
            "beside the new one."
        ),
    )


def _events(summary: Summary, collection: str, generation: int) -> int:
    """How many events there are of a generation, or of a collection if it is 0; -1 for a generation that is over."""
    if not generation:
        return summary.totals.get(collection, CollectionTotals()).events
    known = summary.generations.get(collection, ())
    return next((one.events for one in known if one.number == generation), -1)


def check_position(table: PositionedTable, log: FollowedLog, name: str) -> None:
    """Makes sure that the log is the one that a table has read, up to the table's position.

    Args:
        table: The kept table.
        log: That it is kept from.
        name: Of the source table, for the remedy.

    Raises:
        SparkError: ``TM-SPK-006`` when the log ends before the position, or has other events before it.
    """
    if not table.exists or not table.position:
        return
    standing, end = table.standing, log.end()
    if standing.offset < log.start():
        return  # There is nothing to compare it with any more.
    if standing.offset > end:
        found = f"{log.at} ends at {end}"
    elif standing.before and standing.before != log.mark(standing.offset):
        found = f"{log.at}, restored from an older copy, has other events before that offset"
    else:
        return
    raise SparkError(
        "TM-SPK-006",
        f"{table.place} is at offset {standing.offset}, but {found}",
        remedy=(
            "Bring the newer log back. Or rebuild the table from the log as it is: tidemark materialize FILE "
            f"--rebuild {name}."
        ),
    )
