"""What the demo says while it runs: a line per step, moving on a terminal, plain and now and then in a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PLAIN_SECONDS = 3.0
"""How often a step says how far it is where lines cannot be rewritten."""


@dataclass(slots=True)
class Step:
    """One step under way. ``result`` is what the finished line says."""

    title: str
    result: str = ""
    _progress: Progress | None = None
    _console: Console | None = None
    _said: float = 0.0

    def update(self, detail: str, done: int = 0, total: int = 0) -> None:
        """Says how far the step is: ``done`` of ``total``, where there is a total, and a few words."""
        if self._progress is not None:
            task = self._progress.task_ids[0]
            self._progress.update(task, detail=detail, completed=done, total=total or None)
        elif self._console is not None and time.monotonic() - self._said >= PLAIN_SECONDS:
            self._said = time.monotonic()
            self._console.print(f"    {detail}", highlight=False, markup=False)


class Display:
    """Prints the demo's steps to a console."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """A step that takes a while; its line stays with a tick and the time once it is over."""
        began = time.monotonic()
        if self.console.is_terminal:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[detail]}"),
                TimeElapsedColumn(),
            )
            with Progress(*columns, console=self.console, transient=True) as progress:
                progress.add_task(title, detail="", total=None)
                step = Step(title, _progress=progress)
                yield step
        else:
            self.console.print(f"… {title}", highlight=False)
            step = Step(title, _console=self.console, _said=began)
            yield step
        seconds = time.monotonic() - began
        result = f": {step.result}" if step.result else ""
        self.console.print(f"[green]✓[/] {title}{result} [dim]({seconds:.1f} s)[/]", highlight=False, soft_wrap=True)


def number(value: float) -> str:
    return f"{value:,.0f}"


def size(count: int) -> str:
    """Bytes, for people: 1 MB is a million bytes."""
    if count < 100_000:
        return f"{count / 1000:.1f} kB"
    return f"{count / 1e6:.1f} MB" if count < 10**9 else f"{count / 1e9:.1f} GB"
