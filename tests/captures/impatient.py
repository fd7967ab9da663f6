"""A connector that waits little for tables that are away, and looks at its tables all the time, or never.

``python -m tests.captures.impatient SECONDS LOOK_SECONDS MODULE``. And what it says of them.
"""

from __future__ import annotations

import runpy
import sys
from typing import TYPE_CHECKING

from tidemark.captures.engine import set_aside
from tidemark.captures.postgres.tables_that_change import table_changes
from tidemark.captures.scheduling import table_states

if TYPE_CHECKING:
    from tests.captures.session import Json, Session


NEVER = 3600.0
"""For a connector that is to learn of changes from the log alone."""


def impatient(module: str, seconds: float = 1.0, look: float = 0.2) -> list[str]:
    """The command of such a connector. It looks at its tables every so many seconds."""
    return [sys.executable, "-m", "tests.captures.impatient", str(seconds), str(look), module]


def aside_of(capture: Session, table: str) -> Json | None:
    """What the state says of a table that is set aside."""
    for key, state in capture.state.get("bindings", {}).items():
        if key.endswith(f"%2F{table}"):
            found: Json | None = state.get("aside")
            return found
    return None


def status_of(capture: Session, table: str) -> Json:
    """The last status line's word of a table."""
    lines = [line for line in capture.logs if line.get("eventType") == "connectorStatus"]
    tables = lines[-1]["fields"]["tables"] if lines else {}
    found: Json = next((state for name, state in tables.items() if name.endswith(f".{table}")), {})
    return found


def is_set_aside(capture: Session, table: str) -> bool:
    """Whether both say so."""
    return aside_of(capture, table) is not None and status_of(capture, table).get("state") == "set_aside"


if __name__ == "__main__":
    table_states.GRACE_SECONDS = float(sys.argv[1])
    set_aside.LOOK_SECONDS = set_aside.GRACE_LOOK_SECONDS = table_changes.LOOK_SECONDS = float(sys.argv[2])
    runpy.run_module(sys.argv[3], run_name="__main__")
