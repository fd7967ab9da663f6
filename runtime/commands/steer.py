"""``tidemark pause``, ``resume``, ``backfill`` and ``priority``: commands to a capture, whether or not it runs now."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemark.protocol.capture_file import read_capture_file
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import UsageError
from tidemark.protocol.fields import message_of
from tidemark.protocol.messages import Control
from tidemark.protocol.text.nearest_names import near
from tidemark.runtime.commands.terminal.arguments import CaptureFileArgument, JsonOption
from tidemark.runtime.commands.terminal.printing import say, say_json
from tidemark.runtime.preparation.permissions import write_for
from tidemark.runtime.progress.liveness import liveness
from tidemark.runtime.progress.rereads import rereads
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.steering.outcomes import LOOK_SECONDS, is_handled, refusal
from tidemark.runtime.steering.waiting_commands import WaitingCommands

WAIT_SECONDS = 15.0
"""How long to wait for a running capture to carry out a command."""

TablesOption = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", help="schema.table; may be repeated. Without it: all tables."),
]

TableOption = Annotated[list[str], typer.Option("--table", "-t", help="schema.table; may be repeated.")]

FromOption = Annotated[
    str | None,
    typer.Option("--from", help="Rows from this key on: its values as the source prints them, separated by commas."),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until", help="Rows up to this key; its first values alone include every key that begins with them."
    ),
]


def pause(file: CaptureFileArgument, table: TablesOption = None, json: JsonOption = False) -> None:
    """Pause the backfill of tables. Their changes are still captured, and the source's log is never held up.

    They stay paused across restarts, until 'tidemark resume'.
    """
    _give(file, {"action": "pause", "tables": table}, json=json)


def resume(
    file: CaptureFileArgument,
    table: TablesOption = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Drop a reread that is put off: the rows downstream are right as they are.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Resume tables that are paused, whose backfill failed, that are set aside, or whose reread is put off.

    With --keep rereads are dropped instead. That is refused if the table's key has changed, or rows can be gone.
    """
    if keep:
        _check_may_be_dropped(file, table)
    _give(file, {"action": "resume", "tables": table, "keep": keep or None}, json=json)


def backfill(
    file: CaptureFileArgument,
    table: TableOption,
    where: Annotated[str | None, typer.Option(help="Only rows that meet this SQL condition.")] = None,
    first: FromOption = None,
    until: UntilOption = None,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Rows that are not read again are gone. Needs all rows of the table.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Backfill a table again: all rows, the keys from --from to --until, or the rows that meet --where.

    Nothing else stops, and captured events stay. The rows are captured once more, with their current values. With
    --truncate they are a new generation of the table, which replaces the rows of the one before once it is whole.
    """
    if len(table) > 1 and (where or first or until):
        raise UsageError("TM-CFG-007", "--where, --from and --until are for one table")
    if truncate and (where or first or until):
        raise UsageError("TM-CFG-007", "--truncate is for all rows of a table, without --where, --from and --until")
    command: dict[str, Any] = {"action": "backfill", "tables": table, "where": where}
    command |= {"from": _key(first), "until": _key(until), "truncate": truncate or None}
    _give(file, command, json=json)


def priority(
    file: CaptureFileArgument,
    table: TableOption,
    number: Annotated[int, typer.Option("--priority", "-p", help="Tables with a higher number are backfilled first.")],
    json: JsonOption = False,
) -> None:
    """Change which tables are backfilled first."""
    _give(file, {"action": "priority", "tables": table, "priority": number}, json=json)


def _key(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")


def _give(file: Path, command: dict[str, Any], *, json: bool) -> None:
    settings = read_capture_file(file)
    write_for(settings.readable_by)
    folder, store = StateFolder.of_file(file), settings.log_store()
    status = read_status(folder, store) or {}
    _check_tables(command["tables"] or [], list(status.get("tables", {})))
    command = {name: value for name, value in command.items() if value is not None}
    number = WaitingCommands.of(folder, store).give(message_of(Control, {"sequence": 1, **command}))
    log = ChangeLog(store)
    done = _wait(log, number) if liveness(status).running else False
    if done and (refused := refusal(folder, log, number)):
        raise UsageError("TM-CAP-004", refused)
    if json:
        report = {"sequence": number, "done": done, **command}
        say_json(report)
        return
    what = f"{command['action']} {', '.join(command.get('tables') or ['all tables'])}"
    when = "accepted by the connector" if done else "stored; the connector receives it when the capture runs"
    say(f"{what}: {when}\n")


def _check_tables(wanted: list[str], known: list[str]) -> None:
    """Checks names against the capture's last status, if there is one."""
    wrong = [name for name in wanted if name not in known] if known else []
    if wrong:
        listed = "; ".join(f"{name} is not captured{near(name, known)}" for name in wrong)
        raise UsageError("TM-CFG-004", listed, remedy="Write table names as 'tidemark status FILE' lists them.")


def _check_may_be_dropped(file: Path, wanted: list[str] | None) -> None:
    """Refuses by the capture's last status, if there is one. The connector, which knows better, checks it again."""
    status = read_status(StateFolder.of_file(file), read_capture_file(file).log_store()) or {}
    known = rereads(status.get("tables", {}))
    for name in wanted or known:
        if name in known and known[name].reread.put_off and not known[name].may_be_dropped:
            causes = "; ".join(cause.words or cause.name for cause in known[name].reread.causes)
            raise UsageError("TM-CAP-009", f"{name} must be read again: {causes}")


def _wait(log: ChangeLog, number: int) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_handled(log, number):
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True
