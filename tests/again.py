"""Runs the tests that failed last once more, by themselves: ``python -m tests.again``, in the folder of their cache.

Tests of outages and kills race with whatever else the machine does. A test that fails by itself too has a defect, and
so has a run in which many fail.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

MOST = 3
"""So many are run again; more are no accident."""

STATUS = Path(".pytest_cache/exit-status")
"""Where ``make test`` leaves pytest's exit status, if that is not 0."""

FAILED = Path(".pytest_cache/v/cache/lastfailed")

TESTS_FAILED = 1
"""pytest's exit status where tests failed; with another one it broke off, and knows nothing of the tests after that."""


def failed() -> list[str]:
    """The tests that failed, in setup, call or teardown, by names that pytest takes.

    pytest-xdist appends ``@GROUP`` to the names of tests that one process is to have. Names of functions have no ``@``,
    and those of parameters stand in brackets.
    """
    return [re.sub(r"@\w+$", "", name) for name in json.loads(FAILED.read_text())]


def main() -> int:
    if int(STATUS.read_text()) != TESTS_FAILED:
        return 1
    tests = failed()
    sys.stdout.write("\n  ".join(["failed beside other tests:", *tests]) + "\n")
    sys.stdout.flush()
    if not 0 < len(tests) <= MOST:
        return 1
    # By name, not as what pytest itself would choose: a name that it does not find is an error.
    return subprocess.run([sys.executable, "-m", "pytest", *tests], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
