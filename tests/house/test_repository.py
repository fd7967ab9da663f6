"""What holds for every file of the repository."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.house.files import ROOT, repository_files
from tidemark.protocol.extras import EXTRAS


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pins() -> dict[str, str]:
    """Versions in constraints.txt by normalised name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line.split("==") for line in lines if not line.startswith("#")]
    return {_normalised(name): version for name, version in pinned}


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_no_file_names_a_path_of_this_machine() -> None:
    here = {f"{folder}/" for folder in (ROOT, ROOT.parent / "shared", Path.home()) if len(folder.parts) > 1}
    found = []
    for path in repository_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # Not text.
        found += [f"{path}: {place}" for place in here if place in text]
    assert found == []


def test_every_package_is_installed_and_under_the_import_contracts(project: dict[str, Any]) -> None:
    packages = {
        path.parent.name
        for path in ROOT.glob("*/__init__.py")
        if path.parent.name not in {"tests", "benchmarks", "pyspark_tidemark", "tidemark"}
    }
    links = {path.name: path for path in (ROOT / "tidemark").iterdir() if path.is_symlink()}
    assert packages == links.keys(), "each is imported from tidemark, by a link to its folder"
    assert all(path.readlink() == Path("..", name) for name, path in links.items())
    assert packages == project["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"].keys()
    assert project["tool"]["setuptools"]["packages"]["find"]["include"] == [
        "tidemark",
        "tidemark.*",
        "pyspark_tidemark*",
    ]
    assert project["tool"]["importlinter"]["root_packages"] == ["tidemark"]
    assert "tidemark" in project["tool"]["mypy"]["packages"]
    assert (ROOT / "tidemark" / "py.typed").is_file()


def test_every_dependency_is_pinned(project: dict[str, Any], pins: dict[str, str]) -> None:
    stated = [*project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        stated += extra
    names = {_normalised(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in stated} - {"tidemark"}
    assert names - pins.keys() == set()


def test_an_image_holds_the_base_without_the_command_line_and_arrow_and_its_extra(project: dict[str, Any]) -> None:
    def names(requirements: Iterable[str]) -> set[str]:
        return {re.split(r"[<>=]", requirement.partition(";")[0])[0].strip() for requirement in requirements}

    groups, extras = project["dependency-groups"], project["project"]["optional-dependencies"]
    runtime_alone = {"typer", "rich", "pyyaml", "pyarrow", "obstore", "prometheus-client"}
    assert names(project["project"]["dependencies"]) - names(groups["image"]) == runtime_alone
    connectors = [path.parent.name for path in ROOT.glob("connectors/*/__main__.py")]
    for name in connectors:
        shared, *own = groups[f"{name}-image"]
        assert (shared, names(own)) == ({"include-group": "image"}, names(extras[name]))


def test_who_lacks_an_extra_is_told_its_name(project: dict[str, Any]) -> None:
    assert EXTRAS.keys() == project["project"]["optional-dependencies"].keys() - {"dev", "bench", "readers"}
    table = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in EXTRAS if f"| `tidemark[{name}]` |" not in table] == []


def test_constraints_are_exact_and_name_no_registry(pins: dict[str, str]) -> None:
    assert all(re.fullmatch(r"[0-9][0-9A-Za-z.+!]*", version) for version in pins.values())


def test_ci_is_a_script_that_bash_can_read() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)


def test_the_licence_is_the_whole_apache_licence(project: dict[str, Any]) -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert project["project"]["license"] == "Apache-2.0"
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text
