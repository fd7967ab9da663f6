"""Whether a table stands where it says in the change log: the log may have been restored from an older copy."""

from __future__ import annotations

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.source.followed_log import FollowedLog


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
