"""Which session a job works with: the one it was asked for, whoever asked."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_sink.log_builder import LogBuilder, create
from tests.spark_sink.submitting import PROBE, answers, python, steps, submit
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.spark.executors import check_executors
from tidemark.spark_sink.spark.spark_session import is_local, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.mark.drawn(5, of="a JVM of its own")
@pytest.mark.slow
def test_spark_submit_says_the_master_and_the_settings_unless_the_job_was_told_otherwise() -> None:
    told, own, again = answers(
        submit(
            *("--master", "local[1]", "--conf", f"{PARTITIONS}=9", "--name", "chosen"),
            PROBE,
            steps({}, {"master": "local[2]", "conf": {PARTITIONS: "3", "spark.ui.enabled": "true"}}, {}),
        )
    )
    assert (told["spark.master"], told[PARTITIONS], told["spark.app.name"]) == ("local[1]", "9", "chosen")
    assert told["ours"]
    # Ours where nobody says otherwise.
    assert told["spark.ui.enabled"] == "false"
    assert (own["spark.master"], own[PARTITIONS], own["spark.ui.enabled"]) == ("local[2]", "3", "true")
    assert again == told


@pytest.mark.slow
@pytest.mark.drawn(5, of="a JVM of its own")
def test_without_spark_submit_the_files_and_the_environment_of_spark_are_heard(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"{PARTITIONS} 5\nspark.driver.memory 700m\n")
    defaults, own, active, conflicting, again = answers(
        python(
            PROBE,
            steps(
                {},
                {"conf": {PARTITIONS: "3", "spark.master": "local[1]"}, "keep": True},
                {"keep": True},
                {"master": "local[2]"},
                {},
            ),
            environment={"SPARK_CONF_DIR": str(tmp_path)},
        )
    )
    assert (defaults["spark.master"], defaults[PARTITIONS], defaults["heap"]) == ("local[*]", "5", "-Xmx700m")
    assert defaults["spark.app.name"] == "tidemark"
    assert (own["spark.master"], own[PARTITIONS], own["ours"]) == ("local[1]", "3", True)
    assert (active["spark.master"], active["ours"]) == ("local[1]", False)
    assert "TM-SPK-021: the active session's master is local[1], but local[2] was requested" in conflicting["error"]
    assert (again["spark.master"], again["ours"]) == ("local[1]", False)


@pytest.mark.drawn(5, of="a JVM of its own")
@pytest.mark.slow
def test_what_one_session_was_asked_for_is_not_there_in_the_next() -> None:
    arguments = "--master local[1] --driver-memory 600m pyspark-shell"
    asked, told = answers(
        python(
            PROBE,
            steps({"master": "local[2]", "conf": {PARTITIONS: "7"}}, {}),
            environment={"PYSPARK_SUBMIT_ARGS": arguments},
        )
    )
    assert (asked["spark.master"], asked[PARTITIONS], asked["heap"]) == ("local[2]", "7", "-Xmx600m")
    assert (told["spark.master"], told["spark.driver.memory"]) == ("local[1]", "600m")
    assert told[PARTITIONS] != "7"


def test_a_session_that_cannot_open_is_one_error_with_the_reason_and_no_trace() -> None:
    ended = python(
        PROBE,
        steps(
            {"conf": {"spark.driver.memory": "banana"}},
            {"master": "spork://nowhere"},
            {"master": "local[two]"},
            {"master": "local[1]"},
        ),
    )
    memory, scheme, cores, opened = answers(ended)
    assert memory["error"] == "TM-SPK-023: Spark's JVM did not start: Invalid maximum heap size: -Xmxbanana"
    assert re.fullmatch("TM-SPK-023: Spark's JVM did not start: Master must either be .*", scheme["error"])
    assert re.fullmatch(r"TM-SPK-023: .*Could not parse Master URL: 'local\[two\]'", cores["error"])
    assert opened["spark.master"] == "local[1]"  # None of them is in the way of the next.
    assert "\tat " not in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.drawn(5, of="a JVM of its own")
@pytest.mark.slow
def test_a_jvm_that_dies_ends_a_run_that_can_be_tried_again(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "log")
    log.commit(create(1))
    ended = python("-m", "tests.spark_sink.killed_jvm", log.root, tmp_path / "lake")
    assert ended.stdout == "TM-SPK-013: the driver's JVM has ended\n", ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("step", "environment"),
    [({"master": "sc://127.0.0.1:1"}, {"SPARK_REMOTE": "sc://another"}), ({}, {"SPARK_REMOTE": "sc://127.0.0.1:1"})],
)
def test_a_connect_server_without_its_client(
    step: dict[str, object], environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError(\"No module named 'grpc'\")")
    (answer,) = answers(python(PROBE, steps(step), environment={**environment, "PYTHONPATH": str(tmp_path)}))
    assert answer["error"].startswith("TM-SPK-002: sc://127.0.0.1:1 is a Spark Connect server, and the")


def test_an_active_session_is_taken_and_given_what_it_can_take(spark: SparkSession) -> None:
    # A streaming query leaves its own session, a clone of the first one, as this thread's active one.
    session, ours = open_session(spark.sparkContext.master, {})
    before = session.conf.get(PARTITIONS)
    assert before
    assert session.sparkContext is spark.sparkContext
    assert not ours
    try:
        again, ours = open_session(None, {PARTITIONS: "11"})
        assert (again, ours) == (session, False)
        assert session.conf.get(PARTITIONS) == "11"
    finally:
        session.conf.set(PARTITIONS, before)


def test_an_active_session_that_is_another_one_is_an_error(spark: SparkSession) -> None:
    for master in ("local[7]", "spark://nowhere:7077"):
        with pytest.raises(SparkError, match="TM-SPK-021"):
            open_session(master, {})
    with pytest.raises(SparkError, match=r"TM-SPK-021.*another spark\.executor\.memory"):
        open_session(None, {"spark.executor.memory": "3g"})


def test_executors_in_the_drivers_own_process_are_not_asked(spark: SparkSession) -> None:
    assert is_local(spark)
    tracker = spark.sparkContext.statusTracker()
    before = tracker.getJobIdsForGroup(None)
    check_executors(spark)
    assert tracker.getJobIdsForGroup(None) == before


def test_the_environment_of_the_launch_is_gone(spark: SparkSession) -> None:
    assert "SPARK_DRIVER_MEMORY" not in os.environ
    assert "log4j" not in os.environ.get("SPARK_SUBMIT_OPTS", "")
