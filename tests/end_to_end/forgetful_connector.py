"""A connector that loses events of the log: those of rows whose codes a file names.

    python forgetful_connector.py MODULE FILE

It runs the connector of a module. Rows of backfills and of verifications pass, and everything without a file.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson


def main(module: str, file: Path) -> int:
    connector = subprocess.Popen([sys.executable, "-m", module], stdout=subprocess.PIPE)
    assert connector.stdout is not None
    out = sys.stdout.buffer
    for line in connector.stdout:
        if not _is_forgotten(line, file):
            out.write(line)
        if b'"captured"' not in line[:12]:
            out.flush()
    out.flush()
    return connector.wait()


def _is_forgotten(line: bytes, file: Path) -> bool:
    if not line.startswith(b'{"captured"') or b'"snapshot":true' in line or not file.exists():
        return False
    return orjson.loads(line)["captured"]["doc"].get("code") in file.read_text().splitlines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
