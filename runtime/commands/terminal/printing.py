"""The output of commands: lines, tables, JSON. Not truncated without a terminal, and without control characters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from json import dumps
from typing import TYPE_CHECKING

import orjson

from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.text.visible import visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console

ANY_WIDTH = 100_000
"""The width of output without a terminal: it shows whole names."""

WORDS_WIDTH = 30
"""Words of a table's last column wrap in so many columns at least."""

GAP = "  "
"""Between the columns of a table."""


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
    """Prints a table. No text of it is cut, however narrow the terminal is.

    Rows that do not fit are continued in lines of their own below the name. Words of the last column may wrap.

    Args:
        left: Headings of text columns; the first has names.
        right: Headings of columns of numbers.
        rows: Cells, in the order of the headings.
        last: Heading of one more column of words.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    headings = [*left, *right, *([last] if last else [])]
    cells = [[*map(visible, row)] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    words = last or (left[-1] if not right else "")
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = ANY_WIDTH
    least = [*widths[:-1], min(widths[-1], WORDS_WIDTH) if words else widths[-1]]
    if sum(least) + len(GAP) * (len(least) - 1) > console.width:
        _print_stacked(console, headings, cells, widths, range(len(left), len(left) + len(right)))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        number = len(left) <= place < len(left) + len(right)
        wraps = bool(words) and place == len(headings) - 1
        table.add_column(heading, justify="right" if number else "left", no_wrap=not wraps, overflow="fold")
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _print_stacked(
    console: Console, headings: list[str], rows: list[list[str]], widths: list[int], numbers: range
) -> None:
    """Prints the names of a table in lines of their own, and below each as many other columns a line as fit."""
    from rich.cells import cell_len
    from rich.padding import Padding
    from rich.text import Text

    room = console.width - len(GAP)
    # Words of the last column that are too long for the end of a line have one of their own: only their heading counts.
    ends = len(headings) - 1 if len(headings) - 1 not in numbers else None
    lines: list[list[int]] = []
    used = room
    for place, width in enumerate(widths[1:], start=1):
        least = cell_len(headings[place]) if place == ends else width
        used += len(GAP) + least
        if used > room:
            lines.append([])
            used = least
        lines[-1].append(place)

    def padded(row: list[str], place: int) -> str:
        if place == ends:
            return row[place]
        spaces = " " * (widths[place] - cell_len(row[place]))
        return f"{spaces}{row[place]}" if place in numbers else f"{row[place]}{spaces}"

    for row, style in [(headings, "bold"), *((row, "") for row in rows)]:
        console.print(Text(row[0], style, overflow="fold"))
        for places in lines:
            whole = GAP.join(padded(row, place) for place in places).rstrip()
            if cell_len(whole) > room and places[-1] == ends:
                shown = [GAP.join(padded(row, place) for place in places[:-1]).rstrip(), row[ends]]
            else:
                # Spaces before the number of a column that is alone would fill lines.
                shown = [whole if len(places) > 1 else whole.strip()]
            for text in filter(None, shown):
                console.print(Padding(Text(text, style, overflow="fold"), (0, 0, 0, len(GAP)), expand=False))


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
