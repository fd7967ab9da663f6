"""A connector's process imports what its request needs: a capture starts five of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tidemark.protocol.environment import REQUEST

MODELS = {"pydantic", "tidemark.protocol.messages"}
DRIVERS = {"postgres": "psycopg", "mysql": "pymysql"}
ENGINE = {"tidemark.captures.engine.engine", "tidemark.captures.scheduling.backfills"}
SOURCES = {"tidemark.captures.postgres.source", "tidemark.captures.mysql.source"}

CONNECTORS = pytest.mark.parametrize("connector", DRIVERS)


def imported(connector: str, request: str, expected: str = "") -> set[str]:
    """The modules that a process imports for a request, or for one that it is told to expect."""
    command = [sys.executable, "-X", "importtime", "-m", f"tidemark.connectors.{connector}"]
    environment = {**os.environ, REQUEST: expected}
    done = subprocess.run(
        command, input=request, capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    return set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))


@CONNECTORS
@pytest.mark.parametrize("request_line", ['{"spec":{}}', '{"apply":{"capture":{}}}'])
def test_what_needs_no_server_imports_no_driver_no_model_and_no_engine(connector: str, request_line: str) -> None:
    found = imported(connector, request_line)
    assert "tidemark.captures.process.connector" in found
    assert not found & {*MODELS, *DRIVERS.values(), *ENGINE, *SOURCES, "tidemark.captures.process.answers"}


@CONNECTORS
@pytest.mark.parametrize("request_line", ['{"discover":{}}', '{"validate":{}}'])
def test_what_asks_the_server_imports_its_driver_and_no_engine(connector: str, request_line: str) -> None:
    found = imported(connector, request_line)
    assert found & {*DRIVERS.values()} == {DRIVERS[connector]}
    assert not found & {*ENGINE, *SOURCES}


@CONNECTORS
def test_a_session_imports_them_all(connector: str) -> None:
    found = imported(connector, '{"open":{"capture":{}}}')
    assert found >= {DRIVERS[connector], *ENGINE, f"tidemark.captures.{connector}.source"}


@CONNECTORS
@pytest.mark.parametrize(
    ("expected", "engine"),
    [("spec", False), ("discover", False), ("validate", False), ("apply", False), ("open", True)],
)
def test_what_an_expected_request_takes_is_imported_before_it_comes(
    connector: str, expected: str, *, engine: bool
) -> None:
    found = imported(connector, "", expected)
    assert (DRIVERS[connector] in found) == (expected not in ("spec", "apply"))
    assert (found >= {*ENGINE, f"tidemark.captures.{connector}.source"}) == engine
    assert engine or not found & ENGINE
