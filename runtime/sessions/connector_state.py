"""The state of a connector, which it changes with its checkpoints and at ``apply``."""

from __future__ import annotations

from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.messages import ConnectorState, JsonObject
from tidemark.protocol.state import merge_patch


def changed_state(name: str, state: JsonObject, change: ConnectorState) -> JsonObject:
    """A connector's state after a change. Raises ConnectorError ``TM-RUN-005`` if the result is no object."""
    changed = merge_patch(state, change.updated) if change.merge_patch else change.updated
    if not isinstance(changed, dict):
        raise ConnectorError("TM-RUN-005", f"{name} sent a state that is not an object")
    return changed
