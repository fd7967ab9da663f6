"""A connector that looks at its tables all the time: ``python -m`` this module, and the connector's."""

from __future__ import annotations

import runpy
import sys

from captures.engine import set_aside as asides
from captures.engine import set_aside_record as aside
from captures.postgres.tables import table_changes

COMMAND = [sys.executable, "-m", "tests.captures.postgres.tables_that_change.attentive", "connectors.postgres"]

if __name__ == "__main__":
    aside.GRACE_SECONDS = 0.5
    asides.LOOK_SECONDS = asides.GRACE_LOOK_SECONDS = 0.2
    table_changes.LOOK_SECONDS = 0.2
    runpy.run_module(sys.argv[1], run_name="__main__")
