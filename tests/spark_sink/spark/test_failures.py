"""What Spark raises, as an error of ours."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkImportError, PySparkRuntimeError

from tidemark.protocol.errors import ChangeLogError
from tidemark.spark_sink.spark.failures import tidemark_error

WORKER = "Job aborted: Lost task 1.3 in stage 0.0 (TID 4) (10.0.0.5 executor 0): org.apache.spark.SparkException: "


def test_an_error_of_ours_is_found() -> None:
    error = tidemark_error(
        RuntimeError("…\ntidemark.protocol.errors.ChangeLogError: TM-LOG-009: x.parquet is missing\n…")
    )
    assert type(error) is ChangeLogError
    assert str(error) == "TM-LOG-009: x.parquet is missing"


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ValueError(WORKER + "ModuleNotFoundError: No module named 'tidemark'"), "10.0.0.5 lacks the Python pack"),
        (ValueError("\nModuleNotFoundError: No module named 'pyarrow'"), "an executor lacks the Python package pya"),
        (ValueError(WORKER + 'Cannot run program "/opt/python": error=2'), "10.0.0.5 cannot run /opt/python"),
        (
            PySparkRuntimeError(
                errorClass="PYTHON_VERSION_MISMATCH",
                messageParameters={"worker_version": "3.9", "driver_version": "3.11"},
            ),
            "an executor has Python 3.9, the driver 3.11",
        ),
        (
            PySparkImportError(errorClass="PACKAGE_NOT_INSTALLED", messageParameters={
                "package_name": "PyArrow", "minimum_version": "18.0.0"
            }),
            "an executor lacks the Python package PyArrow",
        ),
    ],
)  # fmt: skip
def test_what_an_executor_lacks_is_named_with_its_host(raised: Exception, told: str) -> None:
    error = tidemark_error(raised)
    assert error.code == "TM-SPK-020"
    assert told in error.message


def test_all_else_is_sparks_own_first_line() -> None:
    assert str(tidemark_error(ValueError("\n  Out of disk\nat …"))) == "TM-SPK-013:   Out of disk"
    called = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n: "
    assert str(tidemark_error(ValueError(f"{called}Job aborted\n\tat org…"))) == "TM-SPK-013: Job aborted"


def test_of_what_python_raised_on_an_executor_nothing_but_its_class_is_told() -> None:
    trace = 'Traceback (most recent call last):\n  File "worker.py", line 3, in run\n    f(x)\n'
    error = tidemark_error(ValueError(f"{WORKER}{trace}pyarrow.lib.ArrowInvalid: cannot read secret as int\n\nat …"))
    assert str(error) == "TM-SPK-013: Python raised pyarrow.lib.ArrowInvalid on an executor"
