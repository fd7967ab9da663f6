"""What ``pip install`` puts on a user's path, and that the user's own ``protocol`` and ``runtime`` do it no harm."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.house.files import ROOT
from tests.house.installation import Built, Environment, add_packages_of_the_user, build, install
from tests.spark_sink.log_builder import LogBuilder, create
from tidemark.testing.spark_cluster import JAVA_OPTIONS, SparkCluster

# All in the process that has the cluster: they are built once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark_cluster")]

OUTSIDE = """
import json, sys
import captures, connectors, protocol, runtime, spark_sink
import pyarrow.parquet as pq
from tidemark import ChangeLog, ChangeLogError, TidemarkError

assert {module.OWNER for module in (captures, connectors, protocol, runtime, spark_sink)} == {"the user"}
log = ChangeLog(sys.argv[1])
rows = [
    row
    for segment in log.segments("public/items", 0, log.end())
    for row in pq.read_table(log.root / segment.path).to_pylist()
]
try:
    ChangeLog(log.root / "none")
except ChangeLogError as error:
    assert isinstance(error, TidemarkError)
    print(json.dumps({"ids": [row["id"] for row in rows], "error": error.code}))
"""

IN_SPARK = """
import json, sys
import protocol, runtime
from pyspark.sql import SparkSession

assert protocol.OWNER == runtime.OWNER == "the user"
spark = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false").getOrCreate()
events = spark.read.format("tidemark").option("path", sys.argv[2]).option("table", "public.items").load()
own = spark.range(1).rdd.map(lambda row: __import__("protocol").OWNER).collect()
from tidemark import read_table

table = read_table(spark, sys.argv[3], "public.items")
print(json.dumps({"events": events.count(), "own": own, "names": sorted(row.name for row in table.collect())}))
spark.stop()
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def base(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """``pip install tidemark``, where packages of the user's have our former names."""
    made = install(built.wheel, tmp_path_factory.mktemp("base"))
    add_packages_of_the_user(made.packages)
    return made


@pytest.fixture(scope="module")
def whole(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """All extras, and the same packages of the user's. What others wrote is that of this Python."""
    made = install(built.wheel, tmp_path_factory.mktemp("whole"), others_from=[Path(sysconfig.get_path("purelib"))])
    add_packages_of_the_user(made.packages)
    return made


@pytest.fixture
def log(tmp_path: Path) -> Path:
    written = LogBuilder(tmp_path / "shop.log")
    written.commit(create(1, name="ann"), create(2, name="bob"))
    return written.root


def capture_file(folder: Path, connector: dict[str, Any]) -> Path:
    path = folder / "shop.yaml"
    content = {"capture": "test", "connector": connector, "log": "shop.log", "spark": {"warehouse": "lake"}}
    path.write_text(json.dumps(content))
    return path


def test_nothing_but_our_own_names_are_at_the_top(built: Built) -> None:
    packages = {name for name in built.wheel_names() if not name.endswith(".dist-info")}
    assert packages == {"tidemark", "pyspark_tidemark"}
    others = {"PKG-INFO", "pyproject.toml", "setup.cfg", "README.md", "LICENSE", "tidemark.egg-info"}
    assert built.sdist_names() - others == {"tidemark", "pyspark_tidemark"}


def test_all_that_is_in_the_checkout_is_in_the_wheel(whole: Environment) -> None:
    # Every module can be imported, and what a type checker and a connector look for besides is there.
    code = (
        "import pkgutil, tidemark, sys\n"
        "found = [m.name for m in pkgutil.walk_packages(tidemark.__path__, 'tidemark.') if '__main__' not in m.name]\n"
        "for name in found: __import__(name)\n"
        "print(len(found))"
    )
    done = whole.run("python", "-W", "error", "-c", code)
    assert done.returncode == 0 and int(done.stdout) > 300, done.stderr[-2000:]
    package = whole.packages / "tidemark"
    assert (package / "py.typed").is_file()
    assert all((package / "connectors" / "postgres" / name).is_file() for name in ("README.md", "spec.json"))
    page = ROOT / "runtime" / "page"
    files = [path.name for path in page.iterdir() if path.suffix in (".html", ".css", ".js")]
    assert len(files) > 3 and all((package / "runtime" / "page" / name).is_file() for name in files)


def test_the_base_shows_its_help(base: Environment) -> None:
    done = base.run("tidemark", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "materialize" in done.stdout


def test_the_base_lists_and_prints_a_log(base: Environment, log: Path) -> None:
    listed = base.run("tidemark", "log", "ls", log, "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert [json.loads(line)["events"] for line in listed.stdout.splitlines()] == [2]
    printed = base.run("tidemark", "tail", log, "--table", "public.items")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert [json.loads(line)["name"] for line in printed.stdout.splitlines()] == ["ann", "bob"]


def test_the_base_reads_a_log_from_python(base: Environment, log: Path) -> None:
    done = base.run("python", "-c", OUTSIDE, log)
    assert done.stdout == '{"ids": [1, 2], "error": "TM-LOG-001"}\n', done.stderr


WHOLE = {
    "postgres": {"config": {"host": "127.0.0.1", "database": "shop", "user": "cdc"}},
    "mysql": {"config": {"host": "127.0.0.1", "user": "cdc"}},
}
"""A whole configuration: what is wrong with one is said first, and needs no driver."""


@pytest.mark.parametrize(
    ("command", "connector", "extra"),
    [
        ("materialize", {"command": ["true"]}, "spark"),
        (
            "check",
            {"command": ["python", "-m", "tidemark.connectors.postgres"], **WHOLE["postgres"]},
            "postgres",
        ),
        ("check", {"command": ["python", "-m", "tidemark.connectors.mysql"], **WHOLE["mysql"]}, "mysql"),
        ("check", {"image": "tidemark/postgres"}, "docker"),
    ],
)
def test_a_command_without_its_extra_names_it(
    command: str, connector: dict[str, Any], extra: str, base: Environment, log: Path
) -> None:
    done = base.run("tidemark", command, capture_file(log.parent, connector))
    assert done.returncode == 1, done.stderr
    assert f"pip install 'tidemark[{extra}]'" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_the_demo_names_its_extra(base: Environment, tmp_path: Path) -> None:
    done = base.run("tidemark", "demo", folder=tmp_path)
    assert done.returncode == 1 and "pip install 'tidemark[demo]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_without_its_extra_is_an_import_error_that_names_it(base: Environment) -> None:
    code = "try: from tidemark import register\nexcept ImportError as error: print(error)"
    done = base.run("python", "-c", code)
    assert done.stdout == "TM-RUN-012: the Python package pyspark is missing: pip install 'tidemark[spark]'\n"


def test_an_editable_install_has_the_same_names() -> None:
    code = "import tidemark.protocol.errors as ours; print(ours.__file__)"
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).parts[-3:] == ("tidemark", "protocol", "errors.py")


@pytest.mark.spark
@pytest.mark.drawn(2, of="a cluster of Spark's")
def test_tables_are_kept_on_a_cluster_whose_executors_get_a_zip(
    built: Built, whole: Environment, spark_cluster: SparkCluster, log: Path, tmp_path: Path
) -> None:
    others, users = sysconfig.get_path("purelib"), tmp_path / "users"
    add_packages_of_the_user(users)
    # A wheel is a zip, by another name than Spark looks for.
    zipped = shutil.copy(built.wheel, tmp_path / "tidemark.zip")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{users}:$PYTHONPATH:{others}" exec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    file = capture_file(log.parent, {"command": ["true"]})
    settings = {
        "spark.pyspark.python": python,
        "spark.submit.pyFiles": zipped,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
    }
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]

    kept = whole.run(
        "tidemark", "materialize", file, "--available-now", "--master", spark_cluster.url, "--json", *given
    )

    assert kept.returncode == 0, kept.stderr[-4000:]
    (table,) = json.loads(kept.stdout.splitlines()[-1])["tables"]
    assert (table["table"], table["rows"], table["error"]) == ("public.items", 2, None)

    read = whole.run("python", "-c", IN_SPARK, "local[1]", log, file)
    assert read.returncode == 0, read.stderr[-4000:]
    assert json.loads(read.stdout.splitlines()[-1]) == {"events": 2, "own": ["the user"], "names": ["ann", "bob"]}
