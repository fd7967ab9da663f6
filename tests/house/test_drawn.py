"""What a run leaves out is drawn by its seed, and each value of a parameter stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT

CONFTEST = """
import os
import pytest
from tests.drawn import drawn

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    servers = int(os.environ.get("SERVERS", "2"))
    items[:] = drawn(items, getattr(config.option, "randomly_seed", None), servers=servers)
"""

TESTS = """
import pytest

@pytest.mark.parametrize("any_postgres", ["old", "new"])
@pytest.mark.parametrize("case", range(20))
def test_versions(any_postgres, case): ...

@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
@pytest.mark.parametrize("binlog_database", ["mariadb", "mysql"])
@pytest.mark.parametrize("case", "ab")
def test_product(binlog_database, metadata, case): ...

@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", range(20))
def test_counted(case): ...

@pytest.mark.drawn(2, of="dear ones")
def test_dear_first(): ...

@pytest.mark.drawn(2, of="dear ones")
@pytest.mark.parametrize("case", range(2))
def test_dear_second(case): ...

@pytest.mark.parametrize("binlog_database", ["mariadb", "mysql"])
def test_whole(binlog_database): ...

@pytest.mark.parametrize("engine", ["postgres", "oldest_postgres", "mariadb", "mysql", "mysql_minimal"])
def test_suite(engine): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_cases.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = drawn\n")
    return tmp_path


def collected(folder: Path, *options: str, named: str = "test_cases.py", **environment: str) -> list[str]:
    """The names of the cases of a run."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        [*command, "-c", folder / "pytest.ini", f"{folder}/{named}"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


def test_a_run_takes_a_part_that_its_seed_draws(folder: Path) -> None:
    one, again, other = (collected(folder, f"--randomly-seed={seed}") for seed in (1, 1, 2))
    assert one == again != other
    for run in (one, other):
        tests = ("test_versions", "test_product", "test_counted", "test_whole", "test_suite")
        of = {test: [name for name in run if name.startswith(test)] for test in tests}
        versions = [tuple(name.partition("[")[2].rstrip("]").split("-")) for name in of["test_versions"]]
        assert {case for case, _ in versions} == {str(case) for case in range(20)} and len(versions) == 20
        assert {version for _, version in versions} == {"old", "new"}
        for case in "ab":
            product = [name for name in of["test_product"] if f"[{case}-" in name]
            assert len(product) == 2
            for value in ("mariadb", "mysql", "FULL", "NO_LOG"):
                assert sum(value in name for name in product) == 1
        assert len(of["test_counted"]) == 3
        assert sum(name.startswith("test_dear") for name in run) == 2
        assert len(of["test_whole"]) == 1
        assert len(of["test_suite"]) == 3
        for names in ("[postgres] [oldest_postgres]", "[mariadb] [mysql]", "[mysql_minimal]"):
            assert sum(name.partition("test_suite")[2] in names.split() for name in of["test_suite"]) == 1


def test_all_that_runs_on_a_server_is_taken_where_the_other_is_not_there(folder: Path) -> None:
    run = collected(folder, "--randomly-seed=1", SERVERS="1")
    assert {"test_whole[mariadb]", "test_whole[mysql]", "test_suite[mariadb]", "test_suite[mysql]"} <= {*run}
    assert sum(name.startswith("test_product") for name in run) == 4
    assert sum(name.startswith("test_versions") for name in run) == 20


def test_everything_is_taken_where_it_is_asked_for(folder: Path) -> None:
    everything = collected(folder, "--randomly-seed=1", TIDEMARK_TEST_ALL="1")
    assert len(everything) == 40 + 8 + 20 + 3 + 2 + 5
    assert sorted(collected(folder, "-p", "no:randomly")) == sorted(everything)
    # As make soak does: all that some run leaves out.
    assert len(collected(folder, "-m", "drawn", TIDEMARK_TEST_ALL="1")) == 40 + 8 + 20 + 3 + 2 + 4


def test_a_case_that_is_named_is_taken(folder: Path) -> None:
    for version in ("old", "new"):
        case = f"test_versions[0-{version}]"
        assert collected(folder, named=f"test_cases.py::{case}") == [case]
