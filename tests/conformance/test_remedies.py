"""What errors that every database has say to run is run as it stands, and the capture goes on."""

from __future__ import annotations

import shlex

from tests.captures.remedies import statements
from tests.captures.session import Session
from tests.conformance.engine import Engine


def test_rows_that_change_their_keys_faster_than_they_are_read(engine: Engine) -> None:
    engine.users(20)
    bound = engine.bindings("users")
    with engine.capture(bound, backfill={"chunk_rows": 5}) as first:
        first.until(lambda c: c.checkpoints > 0)
    (key,) = first.state["bindings"]
    # As it is after so many scans in a row that could not keep up.
    outrun = {"rows": 0, "ranges": [{}], "rereads": [], "overflows": 1000, "done": False}
    state = {**first.state, "bindings": {key: {**first.state["bindings"][key], "scan": outrun}}}
    with engine.capture(bound, state) as capture:
        capture.until(lambda c: any(line.get("fields", {}).get("code") == "TM-BKF-003" for line in c.logs))
        told = next(line for line in capture.logs if line.get("fields", {}).get("code") == "TM-BKF-003")
        remedy = told["fields"]["remedy"]
        assert f"{engine.schema}.users" in told["message"]
        for statement in statements(remedy):
            if "binlog_row_value_options" not in statement or "MySQL" in type(engine).__name__:
                engine.execute(statement)
        _, _, command = remedy.partition("tidemark ")
        assert shlex.split(command) == ["backfill", "FILE", "--table", f"{engine.schema}.users"]
        capture.send({"control": {"sequence": 1, "action": "backfill", "tables": [f"{engine.schema}.users"]}})
        capture.until(Session.done)
        capture.until(lambda c: len(c.rows()) == 20)
