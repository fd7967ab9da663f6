"""The demo's commands as processes: nothing of them is left, and a failure names its log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.demo.processes import Command, descendants
from tidemark.protocol.errors import ConnectorError


def test_a_failed_command_is_an_error_that_names_its_log(tmp_path: Path) -> None:
    output = tmp_path / "a log"
    with Command(["capture", str(tmp_path / "missing.yaml")], output) as command:
        assert command.wait() != 0
        for raising in (command.check, command.finish):
            with pytest.raises(ConnectorError, match="tidemark capture ended with status") as caught:
                raising()
            assert caught.value.code == "TM-DEMO-003"
            assert str(output) in caught.value.remedy


def test_descendants_are_found_to_the_last() -> None:
    inner = "import sys; print('deep', flush=True); sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}, 'innermost'])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"deep\n"
        found = descendants(os.getpid())
        assert process.pid in found
        assert [pid for pid, command in descendants(process.pid).items() if command.endswith("innermost")]
        process.stdin.close()
