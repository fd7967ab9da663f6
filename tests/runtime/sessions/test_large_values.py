"""What the runtime holds of a value of many megabytes on its way into the log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(sys.platform != "linux", reason="proc(5) tells the most memory that was held"),
]

VALUE_BYTES = 30 * 1024 * 1024

COPIES = 4
"""Of a value, at most. Measured: 3.6; with lines and documents kept 4.7."""

WRITING = """
import sys
from pathlib import Path
from tidemark.protocol.process_memory import FEW_BYTES, bound_freed_memory
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.sessions.captured_lines import CapturedLines
from tidemark.runtime.sessions.output_cutter import OutputCutter

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024

bound_freed_memory(FEW_BYTES)
properties = {"id": {"type": "integer"}, "value": {"type": "string"}}
schema = {"type": "object", "properties": properties, "required": ["id", "value"]}
with LogWriter.open(Path(sys.argv[1]), "shop") as log:
    bound, batch = log.bind("public/large", schema, ["id"]), log.begin()
    cutter, captured = OutputCutter(), CapturedLines(1)

    def read(piece):
        for lines in cutter.cut(piece):
            for run in captured.runs(lines):
                batch.add(bound, run.documents)
        batch.settle()

    before = most()
    for number in range(3):
        read(b'{"captured":{"binding":0,"doc":{"id":%d,"value":"' % number)
        for _ in range(int(sys.argv[2]) // 65_536):
            read(b"x" * 65_536)
        read(b'","_meta":{"op":"c","source":{"snapshot":true}}}}}\\n')
    committed = log.commit(batch, {}, 1)
    print(sum(segment.rows for segment in committed.segments), most() - before)
"""


def test_a_large_value_is_held_a_few_times(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITING, str(tmp_path / "log"), str(VALUE_BYTES)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env={})
    rows, held = map(int, ended.stdout.split())
    assert rows == 3
    assert held < COPIES * VALUE_BYTES, f"{held / VALUE_BYTES:.1f} times as much"
