"""A capture that runs tells what its commits show."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder
from tests.runtime.notifications.receiving import receiving
from tests.runtime.test_foreign_connectors import captured, sourced
from tidemark.protocol.capture_file.notify_entry import NotifyEntry
from tidemark.protocol.errors import ConnectorError
from tidemark.runtime.notifications import notifier

BEGIN: dict[str, Any] = {"message": {"backfillBegin": {}}}
COMPLETE: dict[str, Any] = {"message": {"backfillComplete": {}}}
SCHEMA = sourced(complete=True, id={"type": "integer"})


def test_a_table_that_is_read_again_is_told_once_it_is_whole(folder: CaptureFolder) -> None:
    def status(state: str) -> dict[str, Any]:
        fields = {"tables": {"public.t": {"state": state, "rows_done": 1}}, "caught_up": state == "done"}
        line = {"level": "info", "message": "", "eventType": "connectorStatus", "fields": fields}
        return {"stderr": json.dumps(line)}

    first = [BEGIN, captured(id=1), COMPLETE, {"checkpoint": {"n": 1}}, {"await": 1}, status("done")]
    again = [BEGIN, captured(id=2), {"checkpoint": {"n": 2}}, {"await": 1}, status("done")]
    whole = [captured(id=3), COMPLETE, {"checkpoint": {"n": 3}}, {"await": 1}, status("done")]
    folder.script([OPENED, SCHEMA, *first], [OPENED, SCHEMA, *again], [OPENED, SCHEMA, *whole])
    with receiving() as hook:
        folder.write_file(notify={"to": [{"url": hook.url}]})
        for _ in range(2):
            assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
        assert hook.events == ["backfill_done"]
        assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
    assert hook.events == ["backfill_done", "generation_shown"]
    told = hook.bodies[-1]
    assert told["tables"] == [{"table": "public.t", "generation": 2}]
    assert told["text"] == "shop: a new generation of public.t is shown"


def test_receivers_that_hang_hold_up_the_end_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "LAST_SECONDS", 2.0)
    entry = NotifyEntry.model_validate({"to": [{"command": ["sleep", "20"]}] * 6})
    report = {"tables": {}, "away_seconds": 0.0, "lag_seconds": None}
    said: list[str] = []
    begun = time.monotonic()
    with (
        pytest.raises(ConnectorError),
        notifier.Notifier(entry, tmp_path, "shop", None, lambda: report, lambda level, text, **_: said.append(text)),
    ):
        raise ConnectorError("TM-RUN-002", "it failed")
    assert time.monotonic() - begun < 6 * 2.0
    assert len(said) == 6 and "took more than 2 s" in said[0]
