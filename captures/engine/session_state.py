"""The state in a checkpoint: the log's position, hidden transactions, and the progress of each table."""

from __future__ import annotations

from tidemark.captures.contract.capabilities import RemembersLayouts
from tidemark.captures.contract.source import Source
from tidemark.captures.engine.state import CaptureState
from tidemark.captures.scheduling.backfills import Backfills
from tidemark.protocol.messages import ConnectorState, JsonObject

HIDDEN_IDS = 100
"""The most hidden transactions that a checkpoint names. There are more only on a standby, while a transaction runs on
its primary: then all later transactions count as hidden, and a barrier stands for them."""


def advance_state(
    state: CaptureState, source: Source, backfills: Backfills, position: int, identity: JsonObject, handled: int
) -> ConnectorState | None:
    """Applies to ``state`` what a checkpoint at ``position`` holds. Returns the change; None without one.

    Args:
        identity: Of the source.
        handled: The last command's sequence.

    Raises:
        SourceError: The source cannot be queried.
    """
    hidden = backfills.hidden
    if len(hidden):
        # Nearly always every transaction is visible, and the checkpoint names none.
        hidden.purge(source.visibility())
    ids, until = hidden.ids(), backfills.hidden_until
    if len(ids) > HIDDEN_IDS:
        ids, until = [], source.barrier()
    tables = {backfill.table.state_key: backfill.to_state() for backfill in backfills.tables}
    if isinstance(source, RemembersLayouts):
        for backfill in backfills.tables:
            if not backfill.left_out:
                tables[backfill.table.state_key]["layout"] = source.layout(backfill.table.binding, position)
    return state.advance(source.format_position(position), identity, ids, tables, handled, until)
