"""The connector's state: what a checkpoint holds, and what a session starts from.

::

    {"cursor": "0/1950A28",                    the log has been emitted up to here
     "source": {"system": "7412…", …},         which server that is a position of
     "hidden": [745],                          emitted transactions that snapshots may not see yet; nearly always absent
     "bindings": {"public%2Fusers": {          by stateKey
         "identity": "16402 id",               the table and its key: with others it is read anew
         "barrier": 751,                       no chunk before all transactions below this are over
         "scan": {"cursor": ["4711"], …}}}}    see backfill.scan
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from backfill.fence import TransactionId
from captures.interface import Barrier
from protocol.errors import ProtocolError
from protocol.messages import ConnectorState, JsonObject
from protocol.state import merge_patch


class _StoredBinding(BaseModel):
    model_config = ConfigDict(strict=True)
    identity: str | None = None
    barrier: Barrier | None = None
    scan: JsonObject | None = None  # See backfill.scan, which looks at it closely.


class _Stored(BaseModel):
    model_config = ConfigDict(strict=True)
    cursor: str | None = None
    source: JsonObject | None = None
    hidden: list[TransactionId] | None = None
    bindings: dict[str, _StoredBinding] | None = None


class CaptureState:
    """The state as of the last checkpoint, and the patch that the next one will carry.

    Raises:
        ProtocolError: ``TM-PRO-003`` a member of the state is not what this connector writes.
    """

    def __init__(self, state: JsonObject) -> None:
        try:
            _Stored.model_validate(state)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
            raise ProtocolError(
                "TM-PRO-003",
                f"open.state: {wrong}",
                remedy="Something other than this connector wrote the state. Restore it, or start a new change log.",
            ) from None
        self._stored: JsonObject = dict(state)

    @property
    def cursor(self) -> str | None:
        return self._stored.get("cursor")

    @property
    def source(self) -> JsonObject | None:
        return self._stored.get("source")

    @property
    def hidden(self) -> list[TransactionId]:
        return list(self._stored.get("hidden") or [])

    def binding(self, state_key: str) -> JsonObject | None:
        return (self._stored.get("bindings") or {}).get(state_key)

    def advance(
        self, cursor: str, source: JsonObject, hidden: list[TransactionId], bindings: dict[str, JsonObject]
    ) -> ConnectorState | None:
        """The change from the last checkpoint to this state, None when there is none. ``bindings`` holds them all."""
        patch: dict[str, Any] = {}
        if cursor != self._stored.get("cursor"):
            patch["cursor"] = cursor
        if source != self._stored.get("source"):
            patch["source"] = source
        if hidden != self.hidden:
            patch["hidden"] = hidden or None
        stored = self._stored.get("bindings") or {}
        changed: dict[str, Any] = {}
        for state_key, state in bindings.items():
            old = stored.get(state_key)
            if old != state:
                # Members that went away have to be removed by name: a patch only ever adds.
                gone = {} if old is None else {name: None for name in old if name not in state}
                changed[state_key] = {**gone, **state}
        # A table that is bound again later starts anew: its log was not read in between.
        changed.update({state_key: None for state_key in stored if state_key not in bindings})
        if changed:
            patch["bindings"] = changed
        if not patch:
            return None
        self._stored = merge_patch(self._stored, patch)
        return ConnectorState(updated=patch, merge_patch=True)
