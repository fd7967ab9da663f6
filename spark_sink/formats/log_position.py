"""Where a table stands in the change log: whether that is this log, and whether the table lacks anything of it."""

from __future__ import annotations

from tidemark.protocol.changelog import Summary
from tidemark.protocol.changelog.models import CollectionTotals
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.positions import Position
from tidemark.spark_sink.source.followed_log import FollowedLog


def position_at(log: FollowedLog, collection: str, generation: int, end: int) -> Position:
    """The position of a table that has all events of a generation, or all of them if it is 0, below a commit's end."""
    return Position(end, log.mark(end), generation, _events(log.summary_at(end), collection, generation))


def complete_to(table: PositionedTable, log: FollowedLog, collection: str, summary: Summary) -> int:
    """The offset below which a kept table lacks no event: its position, or the end of a summary.

    The summary has as many events of the table as there are below its position, or more. So no commit is read to know
    that a table is complete that has had no event for long.
    """
    if not table.exists or not table.position:
        return 0
    standing = table.standing
    applied = standing.events
    if applied < 0:
        applied = _events(log.summary_at(standing.offset), collection, standing.generation)
    is_complete = 0 <= applied == _events(summary, collection, standing.generation)
    return summary.next_offset if is_complete else standing.offset


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
    if standing.offset > end:
        found = f"{log.root} ends at {end}"
    elif standing.before and standing.before != log.mark(standing.offset):
        found = f"{log.root}, restored from an older copy, has other events before that offset"
    else:
        return
    raise SparkError(
        "TM-SPK-006",
        f"{table.path} is at offset {standing.offset}, but {found}",
        remedy=(
            "Bring the newer log back. Or rebuild the table from the log as it is: tidemark materialize FILE "
            f"--rebuild {name}."
        ),
    )
