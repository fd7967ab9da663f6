"""Capture files may have the former names of our connectors' modules, without ``tidemark``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.warm_process import run_to_its_end
from tidemark.runtime.preparation.prepared_capture import present_command

FORMER = "connectors"
"""The package's name, which stands by itself here: there is a program that rewrites such names, in tests too."""


@pytest.mark.parametrize("module", [f"{FORMER}.postgres", f"{FORMER}.mysql"])
def test_the_former_name_of_a_module_is_replaced_and_told(module: str, tmp_path: Path) -> None:
    command, told = present_command(["python", "-X", "dev", "-m", module, "-v"], tmp_path)
    assert command == ["python", "-X", "dev", "-m", f"tidemark.{module}", "-v"]
    assert module in told and f"tidemark.{module}" in told


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-m", "tidemark.connectors.postgres"],
        ["python", "-m", "connectors.oracle"],
        ["./run", f"{FORMER}.postgres"],
        ["python", "-m"],
    ],
)
def test_other_commands_run_as_they_are(command: list[str], tmp_path: Path) -> None:
    assert present_command(command, tmp_path) == (command, "")


def test_a_package_of_the_users_own_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / FORMER).mkdir()
    command = ["python", "-m", f"{FORMER}.postgres"]
    assert present_command(command, tmp_path) == (command, "")


def test_check_runs_the_connector_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    config = {"host": "127.0.0.1", "port": 1, "database": "d", "user": "u"}
    connector = {"command": ["python", "-m", f"{FORMER}.postgres"], "config": config}
    file.write_text(json.dumps({"capture": "shop", "connector": connector, "log": "./shop.log"}))
    done = run_to_its_end([sys.executable, "-m", "tidemark.runtime", "check", str(file), "--json"])
    findings = json.dumps(done.stdout)
    assert "is now tidemark.connectors.postgres" in findings
    assert "No module named" not in findings and "TM-PG-" in findings
