"""Where ``sitecustomize`` is: in the ``PYTHONPATH`` of a JVM, which hands it to the workers of Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.spark_python.sitecustomize import SERVER, SOURCE
from tests.warm_command import place
from tests.warm_process import STREAMS


def preload(environment: pytest.MonkeyPatch) -> None:
    """Has the workers of a JVM that is started with the environment forked from processes that have imported all."""
    environment.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    if sys.platform == "linux":
        environment.setenv(SERVER, place(STREAMS, *SOURCE))
