"""The state in a checkpoint: the log's position, hidden transactions, and the progress of each table."""

from __future__ import annotations

from captures.contract.capabilities import RemembersLayouts
from captures.contract.source import Source
from captures.engine.state import CaptureState
from captures.scheduling.backfills import Backfills
from captures.scheduling.table_backfill import TableBackfill
from protocol.messages import ConnectorState, JsonObject

HIDDEN_IDS = 100
"""The most hidden transactions that a checkpoint names. There are more only on a standby, while a transaction runs on
its primary: then all later transactions count as hidden, and a barrier stands for them."""


class SessionState:
    """Computes the changes of the state.

    Args:
        state: Of the last session; each change is applied to it.
    """

    def __init__(self, source: Source, backfills: Backfills, state: CaptureState) -> None:
        self._source = source
        self._layouts = source if isinstance(source, RemembersLayouts) else None
        self._backfills = backfills
        self._state = state

    def advance(self, position: int, identity: JsonObject, handled: int) -> ConnectorState | None:
        """The change for a checkpoint at ``position``; None without a change.

        Args:
            identity: Of the source.
            handled: The last command's sequence.

        Raises:
            SourceError: The source cannot be queried.
        """
        hidden = self._backfills.hidden
        if len(hidden):
            # Nearly always every transaction is visible, and the checkpoint names none.
            hidden.purge(self._source.visibility())
        ids, until = hidden.ids(), self._backfills.hidden_until
        if len(ids) > HIDDEN_IDS:
            ids, until = [], self._source.barrier()
        return self._state.advance(
            self._source.format_position(position),
            identity,
            ids,
            {backfill.table.state_key: self._of(backfill, position) for backfill in self._backfills.tables},
            handled,
            until,
        )

    def _of(self, backfill: TableBackfill, position: int) -> JsonObject:
        state = backfill.to_state()
        if self._layouts is not None and not backfill.left_out:
            state["layout"] = self._layouts.layout(backfill.table.binding, position)
        return state
