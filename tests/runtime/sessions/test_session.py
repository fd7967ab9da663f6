"""A session: what a connector says, and what is in the log afterwards."""

from __future__ import annotations

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder, error_line
from tests.runtime.logged_events import events
from tests.runtime.scripted_sessions import RARELY, ROW_SCHEMA, Recorder, files, run_session, table
from tidemark.protocol.capture_file import CommitEntry
from tidemark.protocol.envelope import MAX_LINE_BYTES
from tidemark.protocol.errors import ConnectorError, TidemarkError
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.sessions.bound_table import BoundTable
from tidemark.runtime.sessions.commit_timing import QUIET_SECONDS, CommitTiming


def rows(first: int, count: int, binding: int = 0) -> dict[str, object]:
    return {"rows": {"first": first, "count": count, "binding": binding}}


def checkpoint(**patch: object) -> dict[str, object]:
    return {"checkpoint": patch}


def test_documents_are_in_the_log_in_the_order_they_came(folder: CaptureFolder) -> None:
    folder.script([OPENED, rows(1, 3), checkpoint(a=1), rows(4, 2), checkpoint(a=2)])
    run_session(folder)
    assert folder.ids() == [1, 2, 3, 4, 5]
    assert folder.log.summary().state == {"a": 2}


def test_documents_of_several_tables_keep_one_order(folder: CaptureFolder) -> None:
    folder.script([OPENED, rows(1, 2), rows(3, 1, binding=1), rows(4, 2), rows(6, 2, binding=1), checkpoint()])
    run_session(folder, table("public/t"), table("public/u"), due=RARELY)
    offsets = {event["id"]: event["_offset"] for name in ("public/t", "public/u") for event in events(folder.log, name)}
    assert [offsets[number] for number in range(1, 8)] == list(range(7))
    assert folder.ids("public/u") == [3, 6, 7]


def test_every_spelling_of_a_captured_line_is_understood(folder: CaptureFolder) -> None:
    lines = [
        '{"captured":{"doc":{"_meta":{"op":"c"},"id":1}}}',
        '{"captured":{"binding":0,"doc":{"_meta":{"op":"c"},"id":2}}}',
        '{"captured":{"doc":{"_meta":{"op":"c"},"id":3},"binding":0}}',
        ' { "captured" : { "binding" : 0 , "doc" : { "_meta": {"op":"c"}, "id" : 4 } } } ',
        '{"captured":{"binding":0,"doc":{"_meta":{"op":"c"},"id":5,"text":"}}"}}}\r',
        '{"captured":{"binding":null,"doc":{"_meta":{"op":"c"},"id":6}}}',
    ]
    folder.script([OPENED, *({"line": line} for line in lines), checkpoint()])
    run_session(folder)
    assert folder.ids() == [1, 2, 3, 4, 5, 6]


def test_state_is_merged_patch_by_patch_and_replaced_when_said_so(folder: CaptureFolder) -> None:
    folder.script(
        [
            OPENED,
            checkpoint(a=1, b={"x": 1, "y": [1, 2]}),
            checkpoint(a=None, b={"x": 2, "y": [3]}),
            {"message": {"checkpoint": {}}},
        ],
        [OPENED, {"message": {"checkpoint": {"state": {"updated": {"c": 3}}}}}],
    )
    run_session(folder)
    assert folder.log.summary().state == {"b": {"x": 2, "y": [3]}}
    run_session(folder)
    assert folder.requests("open")[1]["state"] == {"b": {"x": 2, "y": [3]}}
    assert folder.log.summary().state == {"c": 3}


def test_every_checkpoint_is_acknowledged_once(folder: CaptureFolder) -> None:
    steps = [step for number in range(1, 21) for step in (rows(number, 1), checkpoint(a=number))]
    folder.script([OPENED, *steps, {"await": 20}])
    display = run_session(folder)
    assert sum(request["checkpoints"] for request in folder.requests("acknowledge")) == 20
    assert sum(commit.checkpoints for commit in display.commits) == 20


def test_what_brings_nothing_new_is_acknowledged_without_a_commit(folder: CaptureFolder) -> None:
    schema = {"message": {"sourcedSchema": {"binding": 0, "documentSchema": ROW_SCHEMA}}}
    first = [OPENED, schema, rows(1, 1), checkpoint(a=1), {"await": 1}, schema, checkpoint(), {"await": 2}]
    again = [OPENED, schema, checkpoint(a=1), {"await": 1}, checkpoint(), {"await": 2}]
    folder.script(first, again)
    assert len(run_session(folder).commits) == 1
    assert run_session(folder).commits == []
    assert folder.log.latest() == 2, "two writers' claims and one commit"


def test_an_acknowledgement_comes_after_the_commit(folder: CaptureFolder) -> None:
    folder.script([OPENED, rows(1, 1), checkpoint(a=1), {"await": 1}, {"exit": 1}])
    with pytest.raises(ConnectorError):
        run_session(folder)
    assert folder.ids() == [1]


def test_a_connector_that_did_not_ask_gets_no_acknowledgements_and_the_end_of_stdin(folder: CaptureFolder) -> None:
    folder.script([{"message": {"opened": {}}}, {"await_eof": 1}, rows(1, 1), checkpoint(a=1)])
    run_session(folder)
    assert folder.requests("acknowledge") == []
    assert folder.ids() == [1]


def test_a_checkpoint_without_documents_is_committed(folder: CaptureFolder) -> None:
    folder.script([OPENED, checkpoint(cursor="0/1"), {"await": 1}, checkpoint(cursor="0/2"), {"await": 2}])
    display = run_session(folder)
    assert [commit.state.updated for commit in display.commits] == [{"cursor": "0/1"}, {"cursor": "0/2"}]


def test_what_is_due_is_committed_while_the_connector_is_silent(folder: CaptureFolder) -> None:
    folder.script([OPENED, rows(1, 3), checkpoint(a=1), {"await": 1}])
    run_session(folder, due=CommitEntry(interval=0.2))
    assert folder.ids() == [1, 2, 3]


def test_the_first_rows_of_a_log_are_committed_at_once(folder: CaptureFolder) -> None:
    first = [OPENED, checkpoint(a=1), rows(1, 3), checkpoint(a=2), {"await": 2}, rows(4, 1), checkpoint(a=3)]
    later = [rows(5, 1), checkpoint(a=4)]
    again = [OPENED, rows(6, 1), checkpoint(a=5), rows(7, 1), checkpoint(a=6)]
    folder.script([*first, *later], again)
    commits = [*run_session(folder, due=RARELY).commits, *run_session(folder, due=RARELY).commits]
    assert [(commit.checkpoints, commit.next_offset - commit.first_offset) for commit in commits] == [
        (2, 3),
        (2, 2),
        (2, 2),
    ]


def test_a_connector_that_ends_once_it_is_caught_up_waits_for_no_interval(folder: CaptureFolder) -> None:
    folder.script([OPENED, rows(1, 1), checkpoint(a=1), {"await": 1}, rows(2, 1), checkpoint(a=2), {"await": 2}])
    run_session(folder, due=RARELY, until_caught_up=True)
    assert folder.ids() == [1, 2]


def test_a_quiet_connector_that_reads_a_table_is_not_at_its_end(folder: CaptureFolder) -> None:
    ends, stays = (CommitTiming(RARELY, until_caught_up=until_caught_up) for until_caught_up in (True, False))
    with LogWriter.open(folder.log_path, "shop") as writer:
        bound, batch = BoundTable(table(), writer), writer.begin()
        for timing in (ends, stays):
            timing.heard()
            timing.begin()
        bound.begin(batch)
        assert ends.remaining([bound]) > QUIET_SECONDS
        bound.complete(batch)
        assert ends.remaining([bound]) <= QUIET_SECONDS < stays.remaining([bound])
        batch.discard()


def test_commits_are_cut_by_size_and_only_at_checkpoints(folder: CaptureFolder) -> None:
    steps = [step for number in range(10) for step in (rows(number * 100, 100), checkpoint(a=number))]
    folder.script([OPENED, *steps])
    display = run_session(folder, due=CommitEntry(interval=3600, bytes=15_000))
    events_of_commits = [commit.next_offset - commit.first_offset for commit in display.commits]
    assert len(events_of_commits) > 2
    assert all(count % 100 == 0 for count in events_of_commits)
    assert sum(events_of_commits) == 1000


def test_a_transaction_without_a_checkpoint_is_not_committed_however_long_it_waits(folder: CaptureFolder) -> None:
    folder.script([OPENED, rows(1, 1), checkpoint(a=1), {"await": 1}, rows(2, 50_000), checkpoint(a=2)])
    display = run_session(folder, due=CommitEntry(interval=0.001, bytes=1))
    assert [commit.next_offset - commit.first_offset for commit in display.commits] == [1, 50_000]


def test_documents_follow_a_new_schema_from_where_it_came(folder: CaptureFolder) -> None:
    wider = {**ROW_SCHEMA, "properties": {**ROW_SCHEMA["properties"], "price": {"type": "number"}}}
    new = '{"captured":{"binding":0,"doc":{"_meta":{"op":"c"},"id":2,"text":"x","price":1.5}}}'
    sourced = {"message": {"sourcedSchema": {"binding": 0, "documentSchema": wider}}}
    folder.script([OPENED, rows(1, 1), sourced, {"line": new}, checkpoint(a=1)])
    run_session(folder, due=RARELY)
    found = list(events(folder.log, "public/t"))
    assert [event.get("price") for event in found] == [None, 1.5]
    assert len(folder.log.summary().schemas) == 2


def test_a_log_goes_on_when_the_key_of_tables_without_one_is_another(folder: CaptureFolder) -> None:
    """The log has no key of such a table, so what earlier versions called its key needs no migration."""
    folder.script([OPENED, rows(1, 1), checkpoint(a=1)], [OPENED, rows(2, 1), checkpoint(a=2)])
    run_session(folder, table(key=("/_meta/source/loc",)))
    run_session(folder, table(key=tuple(f"/_meta/source/loc/{part}" for part in range(4))))
    assert folder.ids() == [1, 2]
    assert [schema.key for schema in folder.log.summary().schemas.values()] == [[]]


# What a connector must not do.

BAD_OUTPUT = [
    ([OPENED, {"line": "hello"}], "TM-PRO-001", "line 2 of its output"),
    ([OPENED, {"line": ""}], "TM-PRO-001", "line 2"),
    ([OPENED, {"line": '{"captured":{"binding":0,"doc":{"id":1}}'}], "TM-PRO-001", "line 2"),
    ([OPENED, {"line": "[]"}], "TM-PRO-002", "an array"),
    ([OPENED, {"line": '{"surprise":{}}'}], "TM-PRO-002", "'surprise'"),
    ([OPENED, {"line": '{"captured":{"binding":0,"doc":3}}'}], "TM-PRO-003", "captured"),
    ([OPENED, {"line": '{"captured":{"binding":-1,"doc":{}}}'}], "TM-PRO-003", "captured"),
    ([OPENED, {"line": '{"captured":{"binding":0,"doc":{}},"more":{}}'}], "TM-PRO-002", "'more'"),
    ([OPENED, {"line": '{"checkpoint":{"state":7}}'}], "TM-PRO-003", "checkpoint.state"),
    ([OPENED, {"message": {"checkpoint": {"state": {"updated": 7}}}}], "TM-RUN-005", "not an object"),
    ([OPENED, {"rows": {"first": 1, "count": 1, "binding": 1}}], "TM-RUN-005", "sent binding 1, but there are 1"),
    ([OPENED, {"message": {"sourcedSchema": {"binding": 9, "documentSchema": {}}}}], "TM-RUN-005", "binding 9"),
    ([OPENED, OPENED], "TM-RUN-005", "sent opened after opened"),
    ([{"rows": {"first": 1, "count": 1}}], "TM-RUN-005", "captured before opened"),
    ([{"checkpoint": {}}], "TM-RUN-005", "checkpoint before opened"),
    ([{"message": {"applied": {}}}], "TM-RUN-005", "applied before opened"),
    ([OPENED, {"text": '{"captured":'}], "TM-PRO-006", "in the middle of line 2"),
    ([], "TM-RUN-004", "before it sent opened"),
    ([OPENED, {"rows": {"first": 1, "count": 1}}], "TM-RUN-004", "without a checkpoint after its last documents"),
    ([OPENED, {"line": '{"captured":{"binding":0,"doc":{"id":1},"x":{"a":1}}}'}, checkpoint()], "TM-PRO-001", ""),
    ([OPENED, {"line": '{"captured":{"doc":{"_meta":{"op":"c"},"id":tru}}}'}, checkpoint()], "TM-PRO-001", ""),
    ([OPENED, {"line": '{"captured":{"doc":{"_meta":{"op":"x"},"id":7}}}'}, checkpoint()], "TM-LOG-010", ""),
]


@pytest.mark.parametrize(("steps", "code", "told"), BAD_OUTPUT)
def test_bad_output_is_an_error_with_a_code_and_leaves_nothing(
    folder: CaptureFolder, steps: list[dict[str, object]], code: str, told: str
) -> None:
    folder.script([OPENED, rows(1, 1), checkpoint(a=1), {"await": 1}], steps)
    run_session(folder)
    with pytest.raises(TidemarkError) as caught:
        run_session(folder, due=RARELY)
    assert caught.value.code.startswith(code)
    assert told in caught.value.message
    assert caught.value.exit_status == 1
    assert folder.ids() == [1]
    assert folder.log.summary().state == {"a": 1}
    named = {segment.path for commit in folder.log.commits() for segment in commit.segments}
    assert files(folder.log_path) == named


def test_a_line_over_the_limit(folder: CaptureFolder) -> None:
    size = MAX_LINE_BYTES
    folder.script([OPENED, {"rows": {"first": 1, "count": 1, "size": size}}, checkpoint(a=1)])
    with pytest.raises(ConnectorError) as caught:
        run_session(folder)
    assert caught.value.code == "TM-PRO-005"
    assert "line 2" in caught.value.message


@pytest.mark.heavy
def test_a_line_just_under_the_limit(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"rows": {"first": 1, "count": 1, "size": MAX_LINE_BYTES - 200}}, checkpoint(a=1)])
    run_session(folder)
    assert [len(event["text"]) for event in events(folder.log, "public/t")] == [MAX_LINE_BYTES - 200]


# How a connector ends.

CODED = error_line("no such slot", code="TM-PG-012", policy="manual", remedy="make one")
FOREIGN = '{"lvl":"fatal","msg":"licence expired","code":"ACME-7","policy":"manual","remedy":"renew it"}'
UNCODED = '{"level":"error","message":"no licence","fields":{"policy":"manual","remedy":"buy one"}}'


@pytest.mark.parametrize(
    ("steps", "code", "message", "remedy"),
    [
        ([CODED], "TM-PG-012", "no such slot", "make one"),
        ([{"stderr": '{"level":"fatal","msg":"gone","code":"X-1"}'}], "TM-RUN-002", "status 3: gone (X-1)", None),
        ([{"stderr": FOREIGN}], "ACME-7", "licence expired", "renew it"),
        ([{"stderr": UNCODED}], "TM-RUN-002", "status 3: no licence", "buy one"),
        ([{"stderr": "plain words"}], "TM-RUN-002", "exited with status 3: plain words", None),
        ([{"stderr": "ValueError: bad"}, {"stderr": "bye"}], "TM-RUN-002", "status 3: ValueError: bad", None),
        ([], "TM-RUN-002", "exited with status 3 and logged nothing", None),
    ],
)
def test_a_failure_is_told_in_the_connector_s_own_words(
    folder: CaptureFolder, steps: list[dict[str, object]], code: str, message: str, remedy: str | None
) -> None:
    folder.script([OPENED, *steps, {"exit": 3}])
    with pytest.raises(ConnectorError) as caught:
        run_session(folder)
    assert caught.value.code == code
    assert message in caught.value.message
    if remedy:
        assert caught.value.remedy == remedy


def test_a_signal_is_told_by_name(folder: CaptureFolder) -> None:
    folder.script([OPENED, rows(1, 3), {"signal": 9}])
    with pytest.raises(ConnectorError) as caught:
        run_session(folder)
    assert caught.value.code == "TM-RUN-003"
    assert "killed by signal 9 (SIGKILL)" in caught.value.message


def test_the_error_that_ends_it_is_told_once_and_earlier_ones_are_logged(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"stderr": "error one"}, {"stderr": "error two"}, {"exit": 1}])
    display = Recorder()
    with pytest.raises(ConnectorError, match="error two"):
        run_session(folder, display=display)
    assert [line.message for line in display.lines] == ["error one"]


def test_a_last_error_line_of_a_connector_that_ends_well_is_logged(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"stderr": "an error of no consequence"}])
    assert [line.message for line in run_session(folder).lines] == ["an error of no consequence"]


def test_secrets_are_in_no_log_line_and_in_no_error(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"stderr": "dsn: cdc:hunter22@db"}, {"stderr": "login of hunter22 failed"}, {"exit": 1}])
    display = Recorder()
    with pytest.raises(ConnectorError) as caught:
        run_session(folder, display=display, secrets=["hunter22"])
    assert caught.value.message.endswith("login of *** failed")
    assert [line.message for line in display.lines] == ["dsn: cdc:***@db"]


def test_a_flood_of_log_lines_does_not_stop_the_documents(folder: CaptureFolder) -> None:
    noise = {"stderr": "x" * 100_000}
    steps = [step for number in range(1, 31) for step in (noise, rows(number, 1), checkpoint(a=number))]
    folder.script([OPENED, *steps])
    display = run_session(folder, due=RARELY)
    assert folder.ids() == list(range(1, 31))
    assert len(display.lines) == 30


def test_a_process_that_the_connector_left_behind_does_not_hold_the_session(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"child": 1}, rows(1, 1), checkpoint(a=1)])
    run_session(folder)
    assert folder.ids() == [1]
