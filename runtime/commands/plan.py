"""``tidemark plan``: what a capture would read, how, and how long it would take."""

from __future__ import annotations

from pydantic import ValidationError

from tidemark.protocol.answers.plan import BACKFILL_PLAN, Plan, TablePlan
from tidemark.protocol.capture_file import read_capture_file
from tidemark.protocol.environment import PLAN
from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.log_lines import LogLine
from tidemark.runtime.commands.terminal.arguments import CaptureFileArgument, JsonOption
from tidemark.runtime.commands.terminal.printing import print_table, say, say_aside, say_json
from tidemark.runtime.preparation.prepared_capture import Preparation
from tidemark.runtime.progress.quantities import duration, size


def plan(file: CaptureFileArgument, json: JsonOption = False) -> None:
    """Show how each table would be backfilled, and about how long it would take. Changes nothing.

    Row counts and sizes are the source's estimates. The speed is measured: one reader reads one chunk now. Cells stay
    empty where the source has no estimate.
    """
    found: list[LogLine] = []
    preparation = Preparation(read_capture_file(file), lambda line: _take(line, found), variables={PLAN: "1"})
    spec, discovered = preparation.discover()
    selection = preparation.select(spec, discovered)
    for warning in selection.warnings:
        say_aside(f"warning: {warning}\n")
    preparation.validate(selection.tables)
    if not found:
        raise ConnectorError("TM-RUN-018", f"{preparation.connector.name} does not say how it would read the tables")
    try:
        answer = Plan.model_validate(found[-1].fields)
    except ValidationError as error:
        raise ConnectorError(
            "TM-RUN-005", f"the plan of {preparation.connector.name} is malformed: {error.error_count()} mistakes"
        ) from None
    if json:
        body = {**answer.model_dump(), "seconds": seconds(answer)}
        say_json(body)
        return
    _print(answer)


def _take(line: LogLine, found: list[LogLine]) -> None:
    if line.event_type == BACKFILL_PLAN:
        found.append(line)
    elif line.level in ("warning", "error", "fatal"):
        say_aside(f"{line.level}: {line.message}\n")


def table_seconds(table: TablePlan) -> float | None:
    """The time one reader takes for a table; None if size or speed is unknown."""
    if table.scan == "none":
        return 0.0
    if table.rows_estimated is None or not table.rows_per_second:
        return None
    return table.rows_estimated / table.rows_per_second


def seconds(answer: Plan) -> float | None:
    """The time all readers together take; None if that of a table is unknown.

    At least the work divided by the readers, and at least the longest table divided by the readers that can share it.
    """
    each = {name: table_seconds(table) for name, table in answer.tables.items()}
    known = [time for time in each.values() if time is not None]
    if len(known) < len(each):
        return None
    longest = [(each[name] or 0.0) / min(answer.readers, max(1, table.ranges)) for name, table in answer.tables.items()]
    return max([sum(known) / answer.readers, *longest])


def _print(answer: Plan) -> None:
    rows = [
        (
            name,
            one.scan,
            ", ".join(one.key) or "none",
            str(one.ranges),
            "" if one.rows_estimated is None else f"{one.rows_estimated:,}",
            "" if one.bytes_estimated is None else size(one.bytes_estimated),
            "" if one.rows_per_second is None else f"{one.rows_per_second:,.0f}",
            duration(table_seconds(one)),
        )
        for name, one in answer.tables.items()
    ]
    print_table(["table", "scan", "key"], ["ranges", "rows, about", "size, about", "rows/s", "one reader"], rows)
    total = seconds(answer)
    readers = "1 reader" if answer.readers == 1 else f"{answer.readers} readers"
    say(
        f"\n{len(answer.tables)} tables, {readers}: "
        + (f"about {duration(total)} at that speed\n" if total is not None else "time unknown\n")
    )
