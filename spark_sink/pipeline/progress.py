"""What a run of ``materialize`` says while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spark_sink.pipeline.report import Applied, PlannedPart


class Progress(Protocol):
    """Who is told. Calls come one at a time, from the thread that runs the job."""

    def planned(self, parts: Sequence[PlannedPart]) -> None:
        """A batch was planned: these parts are applied next."""

    def applied(self, applied: Applied) -> None:
        """A part is in its table."""
