"""What a capture imports, and when: its start is mostly imports."""

from __future__ import annotations

import subprocess
import sys

CAPTURE = "tidemark.runtime.commands.capture"


def printed(code: str) -> str:
    """The output of a new Python."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_log_is_claimed_without_arrow() -> None:
    loaded = "{'pyarrow', 'tidemark.runtime.changelog.claim'} & {*sys.modules}"
    assert printed(f"import sys, {CAPTURE}; print({loaded}, end='')") == "{'tidemark.runtime.changelog.claim'}"


def test_what_writes_a_log_is_loaded_without_pandas() -> None:
    code = f"import sys; from {CAPTURE} import _load; print(_load().__name__, 'pandas' in sys.modules, end='')"
    assert printed(code) == "Supervisor False"


def test_who_asks_arrow_for_pandas_later_gets_it() -> None:
    code = (
        "from tidemark.runtime.changelog.arrow import leave_pandas_out; import pyarrow as pa; leave_pandas_out();"
        "print(pa.table({'a': [1, 2]}).to_pandas()['a'].sum(), end='')"
    )
    assert printed(code) == "3"
