"""The job on a standalone cluster: where it runs, what executors need, and what is said when they lack it."""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

import tidemark.spark_sink
from tests.spark_sink.log_builder import LogBuilder, create
from tests.spark_sink.submitting import PROBE, answers, steps, submit, zip_of_packages
from tidemark.testing.spark_cluster import JAVA_OPTIONS, SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LEAN = ("--conf", f"spark.executor.extraJavaOptions={JAVA_OPTIONS}")


def python_without_site(path: Path, *more: str) -> Path:
    """A Python that knows no installed package but those in ``more``: this project's is one that is installed."""
    known = ":".join(["$PYTHONPATH", *more])
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{known}" exec "{sys.executable}" -S "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.drawn(1, of="a cluster of Spark's")
def test_what_an_executor_lacks_is_said(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    packages = sysconfig.get_path("purelib")
    bare, strange = python_without_site(tmp_path / "bare"), python_without_site(tmp_path / "strange", packages)
    whole, no_arrow, no_tidemark, no_python = answers(
        submit(
            *(
                "--master",
                spark_cluster.url,
                *LEAN,
                "--conf",
                "spark.cores.max=1",
                "--conf",
                "spark.task.maxFailures=1",
            ),
            PROBE,
            steps(
                *(
                    {"python": str(python), "check": True}
                    for python in (sys.executable, bare, strange, tmp_path / "none")
                )
            ),
        )
    )
    assert whole["spark.master"] == spark_cluster.url
    assert "error" not in whole
    assert no_arrow["error"].endswith(" lacks the Python package pyarrow")
    assert no_tidemark["error"].endswith(" lacks the Python package tidemark")
    assert no_python["error"].endswith(f" cannot run {tmp_path / 'none'}")
    assert all(answer["error"].startswith("TM-SPK-020: ") for answer in (no_arrow, no_tidemark, no_python))


@pytest.mark.drawn(1, of="a cluster of Spark's")
def test_the_job_runs_on_the_cluster_from_a_zip(spark_cluster: SparkCluster, log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1), create(2))
    file = tmp_path / "shop.yaml"
    file.write_text(
        f"capture: test\nconnector: {{command: [x]}}\nlog: {json.dumps(str(log.root))}\nspark: {{warehouse: lake}}\n"
    )
    packages = python_without_site(tmp_path / "python", sysconfig.get_path("purelib"))
    main = Path(shutil.copy(Path(tidemark.spark_sink.__file__).parent / "__main__.py", tmp_path / "job.py"))
    archive = zip_of_packages(tmp_path / "tidemark.zip")
    before = spark_cluster.output.count("Registered app")

    done = submit(
        *("--master", spark_cluster.url, *LEAN, "--py-files", archive, main),
        *(file, "--available-now", "--json"),
        environment={"PYSPARK_PYTHON": str(packages)},
    )

    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert [(table["table"], table["kind"], table["rows"]) for table in report["tables"]] == [
        ("public.items", "current", 2)
    ]
    assert spark_cluster.output.count("Registered app") == before + 1
