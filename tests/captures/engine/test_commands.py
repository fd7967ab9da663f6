"""Commands to a capture while it runs, on stdin as a runtime sends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.captures.session import Json, Session, apply, bindings, session
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare, table_rows
from tests.examples import sample
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

SLOW: Json = {"chunk_rows": 50, "max_rate": "300 rows"}
"""A thousand rows take some seconds."""

OTHERS = "CREATE TABLE others (id int PRIMARY KEY)"
BOTH = bindings("public.users", "public.others")


def control(sequence: int, action: str, *tables: str, **more: Any) -> Json:
    return {"control": {"sequence": sequence, "action": action, "tables": list(tables), **more}}


def handled(sequence: int) -> Callable[[Session], bool]:
    return lambda capture: capture.state.get("control") == sequence


def snapshots(capture: Session, binding: int = 0) -> list[Any]:
    """Ids of the rows that chunks brought."""
    return [
        doc["id"]
        for index, doc in capture.documents
        if index == binding and doc["_meta"]["source"].get("snapshot") and doc["_meta"]["op"] != "t"
    ]


def refusals(capture: Session) -> dict[int, str]:
    """Messages about commands that were not carried out, by sequence."""
    return {
        line["fields"]["sequence"]: line["message"]
        for line in capture.logs
        if line.get("fields", {}).get("code") == "TM-CAP-004"
    }


def table_states(capture: Session) -> dict[str, str]:
    """As the last status line has them."""
    found = [line["fields"]["tables"] for line in capture.logs if line.get("eventType") == "connectorStatus"]
    return {name: table["state"] for name, table in found[-1].items()} if found else {}


def test_the_connector_says_that_it_takes_commands(database: Database) -> None:
    prepare(database, USERS)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        wait_until(lambda: any(line.get("eventType") == "control" for line in capture.logs), 20, "it says so")


def test_a_paused_table_stands_still_over_restarts_until_it_is_resumed(database: Database) -> None:
    prepare(database, USERS, FILL, OTHERS, "INSERT INTO others SELECT generate_series(1, 100)")
    config = endpoint(database, backfill=SLOW)
    apply(config, BOTH)
    with session(config, BOTH) as capture:
        capture.until(lambda c: len(snapshots(c)) >= 50)
        capture.send(control(1, "pause", "public.users"))
        capture.until(lambda c: handled(1)(c) and len(snapshots(c, 1)) == 100)
        wait_until(lambda: table_states(capture).get("public.users") == "paused", 20, "the status says so")
    paused = len(snapshots(capture))
    assert paused < 1000
    prepare(database, "INSERT INTO users VALUES (5000, 'while paused')")
    with session({**config, "backfill": {"chunk_rows": 50}}, BOTH, capture.state) as again:
        again.until(lambda c: any(doc["id"] == 5000 for _, doc in c.documents))
        again.documents[:0] = capture.documents
        assert len(snapshots(again)) == paused
        # The first is the same as before, sent again: it is not carried out twice.
        again.send(control(1, "pause", "public.users"))
        again.send(control(2, "resume"))
        again.until(lambda c: handled(2)(c) and c.done())
        again.until(lambda c: c.rows() == table_rows(database))
        assert refusals(again) == {}


def test_a_table_is_read_again_beside_its_log(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        capture.send(control(1, "backfill", "public.users"))
        capture.until(lambda c: len(snapshots(c)) >= 2000 and c.done())
        assert sorted(snapshots(capture)) == sorted([*range(1, 1001)] * 2)
        assert capture.rows() == table_rows(database)
        assert not any(doc["_meta"]["op"] == "t" for _, doc in capture.documents)
        capture.send(control(2, "backfill", truncate=True))
        capture.until(lambda c: len(snapshots(c)) >= 3000 and c.done())
        assert sum(doc["_meta"]["op"] == "t" for _, doc in capture.documents) == 1
        assert capture.rows() == table_rows(database)


@pytest.mark.parametrize(
    ("bounds", "ids"),
    [
        ({"from": ["100"], "until": ["200"]}, range(100, 201)),
        ({"until": ["3"]}, range(1, 4)),
        ({"from": ["990"]}, range(990, 1001)),
        ({"where": "name LIKE '%99'"}, range(99, 1000, 100)),
        ({"where": "id % 2 = 0", "until": ["10"]}, range(2, 11, 2)),
    ],
)
def test_some_rows_are_read_again(database: Database, bounds: Json, ids: range) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, backfill={"chunk_rows": 300})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        del capture.documents[:]
        capture.send(control(1, "backfill", "public.users", **bounds))
        capture.until(lambda c: handled(1)(c) and len(snapshots(c)) >= len(ids) and c.done())
        assert sorted(snapshots(capture)) == list(ids)


FAILS: Json = {"where": "1 / (id - id) = 1"}
NO_NUMBER: Json = {"from": ["no number"]}


@pytest.mark.heavy
# Each is tried for ten seconds before it is given up.
@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("wrong", "killed"),
    sample([(FAILS, False), (NO_NUMBER, False), (NO_NUMBER, True)], [(FAILS, False), (NO_NUMBER, True)]),
)
def test_what_cannot_be_read_again_does_no_harm_to_its_table(database: Database, wrong: Json, killed: bool) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        capture.send(control(1, "backfill", "public.users", **wrong))
        capture.until(lambda c: handled(1)(c) and not c.done())
        if not killed:
            read_in_vain(database, capture)
    if killed:
        with session(config, BOUND, capture.state) as again:
            again.documents = list(capture.documents)
            read_in_vain(database, again)


def read_in_vain(database: Database, capture: Session) -> None:
    capture.until(Session.done, 60)
    assert any("is not read" in line["message"] for line in capture.logs)
    prepare(database, "INSERT INTO users VALUES (-1, 'followed')")
    capture.until(lambda c: c.rows() == table_rows(database))


def test_what_is_asked_for_does_not_wait_for_the_rest_of_its_table(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, backfill=SLOW)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(lambda c: len(snapshots(c)) >= 50)
        capture.send(control(1, "backfill", "public.users", **{"from": ["900"], "until": ["950"]}))
        capture.until(lambda c: {900, 925, 950} <= set(snapshots(c)))
        assert not capture.done() and 800 not in snapshots(capture)


def test_priority_changes_which_table_is_read_first(database: Database) -> None:
    prepare(database, USERS, FILL, OTHERS, "INSERT INTO others SELECT generate_series(1, 1000)")
    config = endpoint(database, backfill={**SLOW, "max_rate": "1000 rows"})
    bound = [{**BOTH[0], "resourceConfig": {**BOTH[0]["resourceConfig"], "priority": 1}}, BOTH[1]]
    apply(config, bound)
    with session(config, bound) as capture:
        capture.until(lambda c: len(snapshots(c)) >= 50)
        assert snapshots(capture, 1) == []
        capture.send(control(1, "priority", "public.others", priority=2))
        capture.until(lambda c: len(snapshots(c, 1)) == 1000)
        assert len(snapshots(capture)) < 1000
        assert capture.state["bindings"]["public%2Fothers"]["priority"] == [2, 0]


def test_wrong_commands_are_refused_and_count_as_handled(database: Database) -> None:
    prepare(database, USERS, FILL, OTHERS)
    config = endpoint(database)
    bound = [BOTH[0], {**BOTH[1], "resourceConfig": {**BOTH[1]["resourceConfig"], "scan": "none"}}]
    apply(config, bound)
    wrong = [
        (control(3, "pause", "public.nowhere"), "public.nowhere"),
        (control(4, "resume", "public.users"), "neither paused nor failed"),
        (control(5, "priority", "public.users"), "the priority is missing"),
        (control(6, "backfill", where="id > 5"), "one table"),
        (control(7, "backfill", "public.users", **{"from": ["1", "2"]}), "from takes"),
        (control(8, "backfill", "public.users", until=["1", "2"]), "until takes"),
        (control(9, "backfill", "public.users", until=["1"], truncate=True), "completely"),
        (control(10, "backfill", "public.others"), "scan: none"),
        (control(11, "pause", "public.users"), ""),
        (control(12, "pause", "public.users"), "already paused"),
    ]
    with session(config, bound) as capture:
        capture.until(Session.done)
        before = len(capture.documents)
        for command, _ in wrong:
            capture.send(command)
        capture.until(handled(12))
        # Log lines come on another pipe than the state.
        told = wait_until(lambda: found if len(found := refusals(capture)) == len(wrong) - 1 else None, 60, "refusals")
        for command, words in wrong:
            sequence = command["control"]["sequence"]
            assert (words in told[sequence]) if words else sequence not in told
        assert len(capture.documents) == before


def test_a_condition_that_the_source_does_not_take_is_refused_before_it_starts(database: Database) -> None:
    prepare(database, USERS, FILL, "CREATE TABLE kept (id int)")
    config = endpoint(database)
    apply(config, BOUND)
    wrong = {
        1: ("id >", "syntax error"),
        2: ("no_such_column = 1", "does not exist"),
        3: ("id", "must be type boolean"),
        4: ("id > 4) OR (1 = 1", "syntax error"),
        5: ("true); COMMIT; DROP TABLE public.kept; SELECT (1", "multiple commands"),
        6: ("1 / 0 = 1", "division by zero"),
    }
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        before = len(capture.documents)
        for sequence, (where, _) in wrong.items():
            capture.send(control(sequence, "backfill", "public.users", where=where))
        capture.until(handled(len(wrong)))
        told = wait_until(lambda: found if len(found := refusals(capture)) == len(wrong) else None, 60, "refusals")
        for sequence, (_, words) in wrong.items():
            assert "the source refuses the condition" in told[sequence] and words in told[sequence], told[sequence]
        assert capture.done() and len(capture.documents) == before
        capture.send(control(7, "backfill", "public.users", where="name LIKE 'name 99%' -- those"))
        capture.until(lambda c: handled(7)(c) and c.done() and len(c.documents) == before + 11)
    prepare(database, "SELECT FROM kept")


def test_a_condition_that_comes_while_the_source_is_away_waits_for_it(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture, database.connect("postgres") as admin:
        capture.until(Session.done)
        before = len(capture.documents)
        admin.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS false")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database.name])
        wait_until(lambda: any("reconnecting in" in line["message"] for line in capture.logs), 30, "it is away")
        capture.send(control(1, "backfill", "public.users", where="id <= 5"))
        capture.send(control(2, "backfill", "public.users", where="id <="))
        admin.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS true")
        capture.until(lambda c: handled(2)(c) and len(c.documents) == before + 5)
        wait_until(lambda: list(refusals(capture)) == [2], 30, "only the second one is refused")


def test_a_command_that_is_no_command_ends_the_session(database: Database) -> None:
    prepare(database, USERS)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        capture.send({"control": {"sequence": 1, "action": "dance"}})
        assert capture.finish() == 1
        assert capture.logs[-1]["fields"]["code"] == "TM-PRO-003"


def test_a_table_without_a_key_is_emptied_before_it_is_read_again(database: Database) -> None:
    prepare(
        database,
        "CREATE TABLE others (id int)",
        "ALTER TABLE others REPLICA IDENTITY FULL",
        "INSERT INTO others SELECT generate_series(1, 500)",
    )
    config = endpoint(database)
    bound = bindings("public.others", scan="physical")
    apply(config, bound)
    with session(config, bound) as capture:
        capture.until(Session.done)
        prepare(database, "INSERT INTO others VALUES (501)")
        capture.until(lambda c: len(c.documents) == 501)
        capture.send(control(1, "backfill", "public.others", until=["5"]))
        capture.send(control(2, "backfill", "public.others"))
        capture.until(lambda c: handled(2)(c) and c.done())
        assert "no key" in refusals(capture)[1]
        operations = [doc["_meta"]["op"] for _, doc in capture.documents]
        assert operations.count("t") == 1
        again = [doc["id"] for _, doc in capture.documents[operations.index("t") + 1 :]]
        assert sorted(again) == list(range(1, 502)), "what came through the log is in the pages now"


def test_a_command_that_comes_before_the_last_acknowledgement_is_carried_out(database: Database) -> None:
    """Also by a connector that is to end when everything is captured."""
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND, stop=True) as capture:
        capture.until(Session.done, acknowledge=False)
        capture.send(control(1, "backfill", "public.users", truncate=True))
        assert capture.finish() == 0
        assert handled(1)(capture) and len(snapshots(capture)) == 2000
