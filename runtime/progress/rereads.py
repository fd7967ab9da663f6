"""The rereads of tables for ``tidemark status``: why, how large, how long, and how to avoid them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from tidemark.protocol.log_lines import Reread, TableProgress
from tidemark.runtime.progress.liveness import time_of
from tidemark.runtime.progress.quantities import duration, size

SHOWN = timedelta(days=1)
"""How long a reread that has ended is shown to people; programs have it for as long as the connector says it."""


@dataclass(frozen=True, slots=True)
class TableReread:
    """The last reread of one table."""

    name: str
    progress: TableProgress
    reread: Reread

    @property
    def state(self) -> str:
        """``put off`` until a command, ``running`` or ``done``."""
        return "put off" if self.reread.put_off else "done" if self.reread.ended else "running"

    @property
    def seconds(self) -> float | None:
        """What it takes: of one that is done, what it took; of one that runs, what is left. None if unknown."""
        begun, ended = time_of(self.reread.begun), time_of(self.reread.ended)
        if begun is not None and ended is not None:
            return (ended - begun).total_seconds()
        return self.progress.seconds_needed if self.reread.put_off else self.progress.seconds_left

    @property
    def may_be_dropped(self) -> bool:
        """Whether a person may decide that the rows downstream stay as they are: all of them are still rows."""
        return self.reread.put_off and not self.reread.empties and self.progress.state != "set_aside"

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            **self.reread.model_dump(),
            "state": self.state,
            "rows_done": 0 if self.reread.put_off else self.progress.rows_done,
            "rows_estimated": self.progress.rows_estimated,
            "bytes_estimated": self.progress.bytes_estimated,
            "seconds": self.seconds,
            "may_be_dropped": self.may_be_dropped,
        }

    def lines(self, file: str, now: datetime) -> Iterator[str]:
        """For people. ``file`` is the capture file's path."""
        for number, cause in enumerate(self.causes(now)):
            begin = f"reread   {self.name}, {self.state}" if number == 0 else "         and"
            yield f"{begin}: {cause}"
        for line in self.what_follows(file):
            yield f"         {line}"

    def causes(self, now: datetime) -> Iterator[str]:
        """What happened to the table, and how long ago."""
        for cause in self.reread.causes:
            time = time_of(cause.time)
            ago = "" if time is None else f", {duration((now - time).total_seconds())} ago"
            yield f"{cause.text}{ago}"

    def what_follows(self, file: str) -> Iterator[str]:
        """The cost, the commands that decide about one that is put off, and how to avoid it next time."""
        yield self._cost(file)
        if self.reread.put_off:
            yield f"to begin it: {self._command(file)}"
            if self.may_be_dropped:
                yield f"if the rows are right as they are: {self._command(file)} --keep"
        for avoid in dict.fromkeys(cause.avoid for cause in self.reread.causes if cause.avoid):
            yield f"next time: {avoid}"

    def _cost(self, file: str) -> str:
        done, rows, table = self.progress.rows_done, self.progress.rows_estimated, self.progress.bytes_estimated
        about = "an unknown number of rows" if rows is None else f"about {rows:,} rows"
        stored = "" if table is None else f", {size(table)} at the source"
        time = None if self.seconds is None else duration(self.seconds)
        if self.reread.put_off:
            needs = f"`tidemark plan {file}` estimates the time" if time is None else f"about {time} with one reader"
            return f"{about}{stored}; {needs}"
        read = f"{done:,} of {about}{stored}; {size(self.reread.bytes_done)} of documents so far"
        if self.reread.ended:
            return f"{done:,} rows, {size(self.reread.bytes_done)} of documents, in {time or 'an unknown time'}"
        return f"{read}; {time or 'an unknown time'} left"

    def _command(self, file: str) -> str:
        return f"tidemark resume {shlex.quote(file)} --table {shlex.quote(self.name)}"


def rereads(tables: dict[str, Any]) -> dict[str, TableReread]:
    """By table, from the figures in ``status.json``; those of a connector that says them."""
    found = {}
    for name, figures in sorted(tables.items()):
        try:
            progress = TableProgress.model_validate(figures)
        except ValidationError:
            continue  # Another connector's figures, which say nothing of rereads.
        if progress.reread is not None:
            found[name] = TableReread(name, progress, progress.reread)
    return found


def is_shown(reread: TableReread, now: datetime) -> bool:
    """Whether people are told of it: it is not done, or was not long ago."""
    ended = time_of(reread.reread.ended)
    return ended is None or now - ended < SHOWN
