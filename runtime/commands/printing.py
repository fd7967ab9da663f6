"""The output of commands: lines, tables, JSON. Not truncated without a terminal, and without control characters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from json import dumps

import orjson

from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.text.visible import visible, visible_json

ANY_WIDTH = 100_000
"""The width of output without a terminal: it shows whole names."""


def say(text: str) -> None:
    """Prints lines."""
    sys.stdout.write(visible(text, lines=True))


def say_json(body: object) -> None:
    """Prints a line of JSON."""
    sys.stdout.write(visible_json(orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE).decode()))


def say_aside(text: str) -> None:
    """Prints lines on stderr."""
    sys.stderr.write(visible(text, lines=True))


def print_table(left: Sequence[str], right: Sequence[str], rows: Sequence[Sequence[str]], last: str = "") -> None:
    """Prints a table.

    Args:
        left: Headings of text columns, which wrap between words and, if necessary, inside words.
        right: Headings of columns of numbers.
        rows: Cells, in the order of the headings.
        last: Heading of one more column of words.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in left:
        table.add_column(heading, overflow="fold")
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    if last:
        table.add_column(last, overflow="fold")
    for row in rows:
        table.add_row(*map(visible, row))
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = ANY_WIDTH
    console.print(table)


def tell_failure(failure: TidemarkError, exit_status: int, *, json: bool) -> None:
    """Writes the error of a command to stderr: as text, or as a JSON line like those of progress."""
    if not json:
        say_aside(failure.explanation)
        return
    fields = {
        "code": failure.code,
        "remedy": failure.remedy,
        "documentation": failure.documentation,
        "exit_status": exit_status,
    }
    line = {"ts": datetime.now(UTC).isoformat(), "level": "error", "message": failure.message, "fields": fields}
    sys.stderr.write(f"{dumps(line)}\n")  # all in ASCII
