"""``tidemark verify``: whether the change log has what the source has, while both are written to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.protocol.capture_file import read_capture_file
from tidemark.protocol.capture_file.verify_entry import share as share_of
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import SourceError, UsageError
from tidemark.runtime.commands.terminal.arguments import CaptureFileArgument, JsonOption
from tidemark.runtime.commands.terminal.printing import say, say_aside, say_json
from tidemark.runtime.preparation.permissions import write_for
from tidemark.runtime.progress.failures import FAILED_FOR_NOW
from tidemark.runtime.progress.liveness import liveness
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.steering.waiting_commands import WaitingCommands

if TYPE_CHECKING:
    from tidemark.runtime.verification.findings import Comparison, Found
    from tidemark.runtime.verification.subjects import Subject

SHOWN = 20
"""Keys that are printed of each table; --json has up to 10,000."""

NOT_READ = "its rows were not read, since the table in Spark could not be compared"

TablesOption = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", help="schema.table; may be repeated. Without it: all tables."),
]
ShareOption = Annotated[
    str, typer.Option(help="The most of the time that reading may take, such as 5%: the rest of it the source rests.")
]


def verify(
    file: CaptureFileArgument,
    table: TablesOption = None,
    share: ShareOption = "100%",
    again: Annotated[
        bool, typer.Option("--again", help="Begin from the start, though a verification is under way.")
    ] = False,
    spark_first: Annotated[
        bool,
        typer.Option("--spark-first", help="Read nothing of a table before the one that Spark keeps can be read."),
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Have exactly the rows that differ read again from the source.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Compare the change log and Spark's tables with the source, live, and name the rows that differ.

    The running capture reads all rows once more, beside the log, as a backfill does, and without a lock on rows. Rows
    that change meanwhile are compared as they were when they were read. It continues after a crash of the capture, and
    if this command is stopped and given again.

    With --repair the rows that differ are read again by their keys, and come into the log as events: those that the
    source has as they are, and deletes of the others. Spark's tables follow from the log.

    Not covered: tables without a key, and rows that are too many where `where` or `truncate: ignore` is given.

    Exit status: 0 all rows that were compared are equal, or were read again, 1 rows differ, 3 a table could not be
    compared for now.
    """
    from tidemark.runtime.changelog.arrow import load_arrow

    load_arrow()
    from tidemark.runtime.upkeep.repairs import Repairs
    from tidemark.runtime.verification.findings import Comparison, Found
    from tidemark.runtime.verification.kept_rows import KeptTables
    from tidemark.runtime.verification.run import command, results, under_way
    from tidemark.runtime.verification.subjects import collections_of, subjects_of

    settings = read_capture_file(file)
    write_for(settings.readable_by)
    folder, log = StateFolder.of_file(file), ChangeLog(settings.log_store())
    status = read_status(folder, log.store) or {}
    subjects = subjects_of(settings, table or [], status.get("tables", {}), collections_of(log))
    if not subjects:
        raise UsageError("TM-CFG-007", f"{log.store.place} has no tables yet")

    watch = _Watch(file, folder, log)
    repairs = Repairs(folder, log, str(file))
    tables: dict[str, Found] = {}

    def tell(subject: Subject, found: Found) -> None:
        tables[subject.name] = found
        if not json:
            say("".join(f"{line}\n" for line in _in_words(subject.name, found)))
        if repair:
            repairs.ask(subject, found)

    with KeptTables(settings) as kept:
        for subject, why in kept.unreadable(subjects, log).items() if spark_first else ():
            tell(subject, Found(Comparison(why=NOT_READ), Comparison(why=why)))
        subjects = [subject for subject in subjects if subject.name not in tables]
        run = None if again else under_way(log.store, subjects)
        if run is not None:
            say_aside(f"verification {run} is under way, and continues; --again begins from the start\n")
        elif subjects:
            watch.look()
            run = WaitingCommands.of(folder, log.store).give(command(subjects, _share(share)))
        if run is not None:
            for subject, found in results(log, run, subjects, partial(watch.verifies, run), kept.of):
                tell(subject, found)
    repaired = repairs.done(watch.look)
    if json:
        say_json({"run": run, "tables": {name: _report(found, repaired.get(name)) for name, found in tables.items()}})
    else:
        say("".join(f"{name}: {_rows(rows)} read again\n" for name, rows in repaired.items()))
    repairs.check()
    if any(part.different and name not in repaired for name, found in tables.items() for part in found.parts):
        raise typer.Exit(1)
    if any(part.why and part.covered for found in tables.values() for part in found.parts):
        raise typer.Exit(FAILED_FOR_NOW)


class _Watch:
    """Looks after the capture while it is waited for.

    Args:
        file: The capture file.
        folder: Of the capture.
        log: Its log.
    """

    def __init__(self, file: Path, folder: StateFolder, log: ChangeLog) -> None:
        self._file = file
        self._folder = folder
        self._log = log
        self._waits: dict[str, str] = {}

    def look(self, number: int | None = None) -> dict[str, Any]:
        """Raises what keeps the command of this number from reaching the connector. Returns the status."""
        said = read_status(self._folder, self._log.store) or {}
        if not liveness(said).running:
            raise SourceError("TM-RUN-029", f"the capture of {self._file} does not run")
        if why := said.get("unsent", {}).get(str(number)):
            WaitingCommands.of(self._folder, self._log.store).withdraw(int(number or 0))
            raise SourceError("TM-RUN-031", why)
        return said

    def verifies(self, number: int) -> Callable[[str], bool]:
        """Says what a verification waits for. Raises as ``look``, and if the connector has refused it.

        Returns:
            Tells by its name whether a table is captured no more, as far as that is known.
        """
        said = self.look(number)
        if refused := said.get("commands", {}).get(str(number)):
            raise UsageError("TM-CAP-004", refused)
        captured = said.get("tables", {})
        for name, figures in captured.items():
            waits = figures.get("waits_for") or ""
            if waits and not self._waits.get(name):
                say_aside(f"{name}: the verification waits for {waits}\n")
            self._waits[name] = waits
        return lambda name: bool(captured) and name not in captured


def _share(text: str) -> float:
    try:
        return share_of(text)
    except ValueError as error:
        raise UsageError("TM-CFG-007", f"--share {text} is not {error}") from None


def _in_words(name: str, found: Found) -> list[str]:
    lines = _of_comparison(name, found.in_log)
    if found.in_spark is not None:
        lines += _of_comparison(f"{name} in Spark", found.in_spark)
    return lines


def _of_comparison(what: str, found: Comparison) -> list[str]:
    if found.why:
        return [f"{what}: not compared: {found.why}"]
    lines = [f"{what}: {_summary(found)}"]
    lines += [f"  {row.kind}: {row.key}" for row in found.named[:SHOWN]]
    if found.different > SHOWN:
        lines.append(f"  and {found.different - SHOWN:,} more")
    return lines


def _summary(found: Comparison) -> str:
    parts = [f"{found.rows:,} rows, {found.compared:,} compared"]
    if found.kept_apart:
        parts.append(f"{found.kept_apart:,} left out")
    if found.unknown:
        parts.append(f"{found.unknown:,} not whole in the log")
    differ = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items() if count)
    return f"{', '.join(parts)}: {differ or 'equal'}"


def _rows(count: int) -> str:
    return "1 row was" if count == 1 else f"{count:,} rows were"


def _report(found: Found, repaired: int | None) -> dict[str, Any]:
    in_spark = None if found.in_spark is None else _figures(found.in_spark)
    return {**_figures(found.in_log), "spark": in_spark, "repaired": repaired}


def _figures(found: Comparison) -> dict[str, Any]:
    return {
        "compared_to": found.offset,
        "rows": found.rows,
        "compared": found.compared,
        "left_out": found.kept_apart,
        "not_whole": found.unknown,
        "different": {str(kind): count for kind, count in found.counts.items() if count},
        "keys": [{"kind": str(row.kind), "key": row.key} for row in found.named],
        "why": found.why or None,
        "covered": found.covered,
    }
