"""What a capture imports, and when: its start is mostly imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CAPTURE = "tidemark.runtime.commands.capture"


def printed(code: str) -> str:
    """The output of a new Python."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_log_is_claimed_without_arrow() -> None:
    loaded = "{'pyarrow', 'tidemark.runtime.changelog.claim'} & {*sys.modules}"
    assert printed(f"import sys, {CAPTURE}; print({loaded}, end='')") == "{'tidemark.runtime.changelog.claim'}"


def test_what_writes_a_log_is_loaded_without_numpy_and_pandas() -> None:
    loaded = "{'pyarrow', 'numpy', 'pandas'} & {*sys.modules}"
    code = f"import sys; from {CAPTURE} import _load; print(_load().__name__, {loaded}, end='')"
    assert printed(code) == "Supervisor {'pyarrow'}"


def test_others_get_numpy_and_pandas_all_the_same() -> None:
    code = (
        "from tidemark.runtime.changelog.arrow import load_arrow; load_arrow();"
        "import numpy, pandas; print(pandas.DataFrame({'a': numpy.array([1, 2])})['a'].sum(), end='')"
    )
    assert printed(code) == "3"


def test_arrow_that_was_there_before_keeps_what_it_has() -> None:
    code = (
        "import pyarrow as pa; from tidemark.runtime.changelog.arrow import load_arrow; load_arrow();"
        "print(pa.table({'a': [1, 2]}).to_pandas()['a'].sum(), end='')"
    )
    assert printed(code) == "3"


SEARCHES = """
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from tidemark.runtime.changelog.arrow import load_arrow

class Looked(MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "pyarrow":
            self.first, self.search = sys.meta_path[0], iter(sys.meta_path)
            while next(self.search) is not self:
                pass

sys.meta_path.insert(sys.meta_path.index(PathFinder), looked := Looked())
load_arrow()
print(next(looked.search) is PathFinder, ThreadPoolExecutor().submit(looked.first.find_spec, "numpy").result(), end="")
"""


def test_what_another_thread_imports_meanwhile_is_found() -> None:
    """A capture loads Arrow while another thread opens the connector, which imports as well: its search goes on."""
    assert printed(SEARCHES) == "True None"


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux says what pages a process has asked for")
def test_arrow_asks_for_no_huge_pages() -> None:
    """``hg`` stands for memory that a process asked to have in huge pages (proc_pid_smaps(5))."""
    looked = (
        "import os; buffers = [pa.allocate_buffer(600_000) for _ in range(40)];"
        "lines = open('/proc/self/smaps').read().splitlines();"
        "asked = any('hg' in line.split() for line in lines if line.startswith('VmFlags'));"
        "print(asked, 'MIMALLOC_ALLOW_THP' in os.environ, end='')"
    )
    loads = "from tidemark.runtime.changelog.arrow import load_arrow; load_arrow();"
    if printed(f"import pyarrow as pa; {looked}") != "True False":
        pytest.skip("Arrow asks for none on this system")
    assert printed(f"{loads} import pyarrow as pa; {looked}") == "False False"
