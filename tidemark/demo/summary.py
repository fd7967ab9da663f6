"""What the demo says at its end, to somebody who sees the project for the first time."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.table import Table

from tidemark.demo.directory import DemoDirectory
from tidemark.demo.display import number, size
from tidemark.demo.scenario import Findings

_LABEL_WIDTH = 22


def print_summary(findings: Findings, demo: DemoDirectory, seconds: float, console: Console) -> None:
    """Prints what was done and measured, whether source and lake are equal, and what to try next."""
    console.print()
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", min_width=_LABEL_WIDTH)
    facts.add_column()
    for label, text in _facts(findings):
        facts.add_row(label, text)
    console.print(facts)
    console.print()
    _print_verdict(findings, console)
    console.print(f"[dim]{seconds:.0f} seconds in all. Everything is stopped; the files are in {demo.root}.[/]\n")
    console.print("[bold]What to try next[/]")
    tidemark, log = quote(_command()), quote(str(demo.change_log))
    for command, what in (
        (f"{tidemark} log ls {log}", "the commits and segments of the change log"),
        (f"{tidemark} tail {log} --table public.orders", "its events, one JSON object per line"),
        (f"less {quote(str(demo.capture_file))}", "the whole configuration"),
        (f"ls {quote(str(demo.lake))}", "Delta tables, for Spark, DuckDB, Polars, pandas"),
        (f"{tidemark} init", "a capture file for a database of your own"),
    ):
        console.print(f"  {command}", style="cyan", highlight=False, markup=False, soft_wrap=True)
        console.print(f"      {what}", style="dim", highlight=False)


def _facts(findings: Findings) -> list[tuple[str, str]]:
    progress = findings.progress
    snapshot, changes = progress.snapshot_rows.total(), progress.changes.total()
    rate = snapshot / findings.backfill_seconds
    facts = [
        ("Source", f"{findings.server}, {number(findings.filled)} rows in {len(findings.tables)} tables"),
        (
            "Backfill",
            f"{number(snapshot)} rows in {findings.backfill_seconds:.0f} s ({number(rate)} rows/s), "
            "in small chunks, with a kill and a restart in the middle",
        ),
        (
            "Meanwhile",
            ", ".join(f"{number(count)} {what}" for what, count in sorted(findings.dealings.items())),
        ),
        ("Change log", f"{number(changes)} live changes, {progress.commits} commits, {size(progress.size)} of Parquet"),
    ]
    if findings.median_delay is not None:
        text = f"{findings.median_delay:.2f} s from a commit in PostgreSQL to the commit in the change log, median"
        facts.append(("Lag", text))
    facts.append(
        (
            "WAL kept by PostgreSQL",
            f"{size(findings.retained)} at most, of that {size(findings.unconfirmed)} unconfirmed",
        )
    )
    if findings.killed_at is None:
        facts.append(("kill -9", "did not happen: the backfill ended before it. Try more --rows."))
    else:
        again = f"{number(findings.twice)} backfill rows are in the change log twice"
        facts.append(
            (
                "kill -9",
                f"after {number(findings.killed_at)} rows; next commit {findings.back_seconds:.1f} s later; {again}",
            )
        )
    facts.append(("Spark", f"{number(snapshot + changes)} events into tables in {findings.materialize_seconds:.0f} s"))
    return facts


def _print_verdict(findings: Findings, console: Console) -> None:
    for name, table in findings.tables.items():
        verdict = "[green]equal[/]" if table.equal else f"[red]{number(table.differing)} keys differ[/]"
        console.print(f"  {name:<20} {number(table.rows):>10} rows  {verdict}", highlight=False)
        for example in table.examples:
            console.print(f"      {example}", highlight=False, markup=False)
    console.print()
    if findings.equal:
        console.print("[bold green]Source and lake are equal, row by row.[/]")
    else:
        console.print("[bold red]Source and lake differ: this is a defect of tidemark. Please report it.[/]")


def _command() -> str:
    """How to call ``tidemark`` from here: by its name where it is on the PATH."""
    if shutil.which("tidemark"):
        return "tidemark"
    script = Path(sys.executable).with_name("tidemark")
    return str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script)
