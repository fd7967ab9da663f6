"""A capture that runs tells what its commits show."""

from __future__ import annotations

import json
from typing import Any

from tests.runtime.capture_folder import OPENED, CaptureFolder
from tests.runtime.notifications.receiving import receiving
from tests.runtime.test_foreign_connectors import captured, sourced

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
