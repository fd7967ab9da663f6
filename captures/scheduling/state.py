"""The connector's state: what a checkpoint holds, and what a session starts from.

::

    {"cursor": "0/1950A28",                    the log has been emitted up to here
     "source": {"system": "7412…", …},         the server of that position, and what its tables were
     "hidden": [745],                          emitted transactions that snapshots may not see yet; nearly always absent
     "hidden_until": 751,                      if those are many: a barrier after which all of them are visible
     "control": 7,                             the last command that was handled
     "taken_out": ["public%2Fold"],            tables that are no longer bound: bound again, they are emptied first
     "bindings": {"public%2Fusers": {          by stateKey
         "identity": "16402 id",               the table and its key: if they change, it is read again
         "barrier": 751,                       no chunk before all transactions below this have ended
         "base": "751:760:@0/19…",             without a key: the snapshot that its scan emits; empty if the scan cannot
                                               be resumed
         "log_only": true,                     it is not scanned
         "begun": true,                        the begin of its backfill was announced, and the end was not
         "paused": true,                       by command
         "priority": [5, 0],                   by command, and the configured one that it replaces
         "failed": {"code": "TM-…", "text": …},  why its backfill is suspended
         "bad": {"null": 3},                   bad values so far, by policy
         "apart": [["17"]],                    keys of rows of which an event is kept apart; true for too many
         "aside": {"code": "TM-…", "text": …,  why the table is set aside; the other members are as they were then
             "since": "0/1950A28",             from this position on
             "passed": true,                   changes were skipped: the table must be read again
             "policy": "…",                    if the reason is a bad value: the policy for its values
             "put_off": true,                  it would be read again, which waits for a command
             "wanted": true},                  that command came
         "reread": {"causes": [{"name": "key", "at": "0/…", …}], …},   why its rows are read again: see protocol.logs
         "layout": "…",                        the columns of its rows from here on, if the log does not have them
         "scan": {"cursor": ["4711"], …}}}}    see tidemark.backfill.range_state
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidemark.backfill.fence import TransactionId
from tidemark.captures.contract.chunk import Barrier
from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.log_lines import Reread
from tidemark.protocol.messages import ConnectorState, JsonObject
from tidemark.protocol.state import difference, merge_patch


class _StoredAside(BaseModel):
    model_config = ConfigDict(strict=True)
    code: str
    text: str
    since: str
    remedy: str | None = None
    passed: bool | None = None
    policy: str | None = None
    put_off: bool | None = None
    wanted: bool | None = None


class _StoredBinding(BaseModel):
    model_config = ConfigDict(strict=True)
    identity: str | None = None
    barrier: Barrier | None = None
    base: Barrier | None = None
    log_only: bool | None = None
    begun: bool | None = None
    paused: bool | None = None
    priority: Annotated[list[int], Field(min_length=2, max_length=2)] | None = None
    failed: JsonObject | None = None
    bad: dict[str, int] | None = None
    apart: list[list[str]] | bool | None = None
    aside: _StoredAside | None = None
    reread: Reread | None = None
    layout: str | None = None
    scan: JsonObject | None = None  # tidemark.backfill.range_state checks it.


class _Stored(BaseModel):
    model_config = ConfigDict(strict=True)
    cursor: str | None = None
    source: JsonObject | None = None
    hidden: list[TransactionId] | None = None
    hidden_until: Barrier | None = None
    control: int | None = None
    taken_out: list[str] | None = None
    bindings: dict[str, _StoredBinding] | None = None


class CaptureState:
    """The state of the last checkpoint, and the patch for the next one.

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

    @property
    def hidden_until(self) -> Barrier | None:
        return self._stored.get("hidden_until")

    @property
    def control(self) -> int:
        return int(self._stored.get("control") or 0)

    def was_taken_out(self, state_key: str) -> bool:
        """Whether a table was captured once, and then not: its rows downstream may no longer exist."""
        return self.binding(state_key) is None and state_key in (self._stored.get("taken_out") or ())

    def binding(self, state_key: str) -> JsonObject | None:
        return (self._stored.get("bindings") or {}).get(state_key)

    def advance(
        self,
        cursor: str,
        source: JsonObject,
        hidden: list[TransactionId],
        bindings: dict[str, JsonObject],
        control: int = 0,
        hidden_until: Barrier | None = None,
    ) -> ConnectorState | None:
        """The change from the last checkpoint to this state; None without a change.

        ``bindings`` holds all of them, without nulls: a null in a merge patch removes a member.
        """
        known = {*(self._stored.get("taken_out") or ()), *(self._stored.get("bindings") or {})}
        new = _without_nulls(
            {
                "cursor": cursor,
                "source": source,
                "hidden": hidden or None,
                "hidden_until": hidden_until,
                "control": control or None,
                "taken_out": sorted(known - bindings.keys()) or None,
            }
        )
        old = {name: value for name, value in self._stored.items() if name != "bindings"}
        patch = difference(old, new) or {}
        if changed := self._changed(bindings):
            patch["bindings"] = changed
        if not patch:
            return None
        self._stored = merge_patch(self._stored, patch)
        return ConnectorState(updated=patch, merge_patch=True)

    def _changed(self, bindings: dict[str, JsonObject]) -> JsonObject:
        stored: JsonObject = self._stored.get("bindings") or {}
        # A table that is bound again later starts from nothing, because its log was not read in between.
        changed: JsonObject = {state_key: None for state_key in stored if state_key not in bindings}
        for state_key, state in bindings.items():
            # There may be many tables, and most are unchanged.
            if (old := stored.get(state_key)) != state:
                changed[state_key] = state if old is None else difference(old, state)
        return changed


def _without_nulls(state: JsonObject) -> JsonObject:
    """The state without null members: a null in a merge patch removes a member."""
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in state.items()
        if value is not None
    }
