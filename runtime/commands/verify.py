"""``tidemark verify``: whether the change log has what the source has, while both are written to."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.protocol.capture_file import CaptureFile, read_capture_file
from tidemark.protocol.capture_file.verify_entry import share as share_of
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.models import QUARANTINE
from tidemark.protocol.errors import SourceError, UsageError
from tidemark.protocol.text.nearest_names import near
from tidemark.runtime.commands.arguments import CaptureFileArgument, JsonOption
from tidemark.runtime.commands.printing import say, say_aside, say_json
from tidemark.runtime.preparation.permissions import write_for
from tidemark.runtime.progress.failures import FAILED_FOR_NOW
from tidemark.runtime.progress.liveness import liveness
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.steering.orders import Orders

if TYPE_CHECKING:
    from tidemark.runtime.verification.findings import Comparison, Found
    from tidemark.runtime.verification.run import Subject

SHOWN = 20
"""Keys that are printed of each table; --json has up to 10,000."""

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
    json: JsonOption = False,
) -> None:
    """Compare the change log and Spark's tables with the source, live, and name the rows that differ.

    The running capture reads all rows once more, beside the log, as a backfill does, and without a lock on rows. Rows
    that change meanwhile are compared as they were when they were read. It continues after a crash of the capture, and
    if this command is stopped and given again.

    Not covered: tables without a key, and rows that are too many where `where` or `truncate: ignore` is given.

    Exit status: 0 all rows that were compared are equal, 1 rows differ, 3 a table could not be compared for now.
    """
    # Arrow takes long to load.
    from tidemark.runtime.verification.kept_rows import kept_of
    from tidemark.runtime.verification.run import command, results, under_way

    settings = read_capture_file(file)
    write_for(settings.readable_by)
    folder, log = StateFolder.of_file(file), ChangeLog(settings.log_store())
    status = read_status(folder, log.store) or {}
    # A capture that has just been started has said nothing of its tables yet.
    in_log = [name.replace("/", ".") for name in log.summary().totals if name != QUARANTINE]
    subjects = _subjects(settings, table, list(status.get("tables", {})) or in_log)
    if not subjects:
        raise UsageError("TM-CFG-007", f"{log.store.place} has no tables yet")

    run: int | None = None

    def look() -> None:
        said = read_status(folder, log.store) or {}
        if not liveness(said).running:
            raise SourceError("TM-RUN-029", f"the capture of {file} does not run")
        if refused := said.get("commands", {}).get(str(run)):
            raise UsageError("TM-CAP-004", refused)

    run = None if again else under_way(log.store, subjects)
    if run is None:
        look()
        run = Orders.of(folder, log.store).give(command(subjects, _share(share)))
    else:
        say_aside(f"verification {run} is under way, and continues; --again begins from the start\n")
    tables = {}
    for subject, found in results(log, run, subjects, look, lambda subject: kept_of(settings, subject.name)):
        tables[subject.name] = found
        if not json:
            say("".join(f"{line}\n" for line in _in_words(subject.name, found)))
    if json:
        say_json({"run": run, "tables": {name: _report(found) for name, found in tables.items()}})
    comparisons = [one for found in tables.values() for one in (found.in_log, found.in_spark) if one is not None]
    if any(comparison.different for comparison in comparisons):
        raise typer.Exit(1)
    if any(comparison.why and comparison.covered for comparison in comparisons):
        raise typer.Exit(FAILED_FOR_NOW)


def _subjects(settings: CaptureFile, wanted: list[str] | None, known: list[str]) -> list[Subject]:
    from tidemark.runtime.verification.run import Subject

    names = list(dict.fromkeys(wanted or known))
    if wrong := [name for name in names if known and name not in known]:
        listed = "; ".join(f"{name} is not captured{near(name, known)}" for name in wrong)
        raise UsageError("TM-CFG-004", listed, remedy="Write table names as 'tidemark status FILE' lists them.")
    return [Subject(name, name.replace(".", "/", 1), all_rows=_has_all_rows(settings, name)) for name in names]


def _has_all_rows(settings: CaptureFile, name: str) -> bool:
    """Whether rows that the source does not have are too many: by the first entry that names the table."""
    given = settings.tables or []
    entries = [entry for entry in given if entry.table == name]
    entries += [entry for entry in given if entry.is_pattern and fnmatchcase(name, entry.table)]
    options: dict[str, Any] = entries[0].others if entries else {}
    return not options.get("where") and "ignore" not in (options.get("truncate"), _truncate(settings))


def _truncate(settings: CaptureFile) -> Any:
    return settings.connector.config.get("truncate")


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


def _report(found: Found) -> dict[str, Any]:
    in_spark = None if found.in_spark is None else _figures(found.in_spark)
    return {**_figures(found.in_log), "spark": in_spark}


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
    }
