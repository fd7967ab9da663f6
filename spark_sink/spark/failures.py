"""Finds our own error in what Spark raises: an error of the source crosses two processes as text."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from tidemark.protocol.changelog import layout
from tidemark.protocol.error_codes import REGISTERED
from tidemark.protocol.errors import ChangeLogError, SparkError, TidemarkError

_OURS = re.compile(r"tidemark\.protocol\.errors\.(\w+): (TM-[A-Z]+-\d{3}): ([^\n]*)")
_UNREAD = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] [^\n]*?((?:file|s3a|gs):/\S*\.parquet)")
"""What Spark's own reader says of a file. Its name is a URL: without spaces."""

_KINDS: dict[str, type[TidemarkError]] = {kind.__name__: kind for kind in (ChangeLogError, SparkError)}

_HOST = re.compile(r"\(TID \d+\) \((\S+) executor \w+\)")
_LACKS = {
    r"ModuleNotFoundError: No module named '([\w.]+)'": "lacks the Python package {}",
    r"different version: \(?'?([\d., ]+)'?\)? than that in driver: \(?'?([\d., ]+?)'?\)?,": (
        "has Python {}, the driver {}"
    ),
    r"PACKAGE_NOT_INSTALLED\] (\w+)": "lacks the Python package {}",
    r'Cannot run program "([^"\n]+)"': "cannot run {}",
}
"""What a worker of Python says that could not begin, as a pattern, and what it means."""

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+(\w[\w.]*)")
_CALLED = re.compile(r"\s*An error occurred while calling \S+\n: ")
"""What py4j says before Spark's own words."""


def spark_exceptions() -> tuple[type[Exception], ...]:
    """What PySpark raises when Spark fails: its own exceptions, and those that it does not translate.

    They are the JVM's, and those of the connection to a JVM that has ended.
    """
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ModuleNotFoundError:  # The client of Connect alone has no JVM.
        return (PySparkException,)
    return (PySparkException, Py4JError, ConnectionError)


def tidemark_error(error: Exception) -> TidemarkError:
    """The error that made Spark fail.

    It is ours where one of ours is in it; ``TM-LOG-009`` where Spark's Parquet reader cannot read a segment;
    ``TM-SPK-020`` where an executor lacks a Python or a package; else ``TM-SPK-013``: the JVM has ended, or Spark has
    stopped the session, or what an executor's Python raised, or the first line of Spark's.
    """
    if lost := lost_session(error):
        return lost
    text = str(error)
    if ours := _OURS.search(text):
        name, code, message = ours.groups()
        if code in REGISTERED:
            return error_of(name, code, message.strip())
    if unread := _UNREAD.search(text):
        condition, url = unread.groups()
        path = PurePosixPath(unquote(urlsplit(url).path if url.startswith("file:") else url))
        if layout.segment_origin(path.name):
            what = "missing" if condition == "FILE_NOT_EXIST" else "damaged: Spark cannot read it"
            return ChangeLogError("TM-LOG-009", f"{path} is {what}")
    for pattern, meaning in _LACKS.items():
        if found := re.search(pattern, text):
            host = _HOST.search(text)
            return SparkError("TM-SPK-020", f"{host[1] if host else 'an executor'} {meaning.format(*found.groups())}")
    if raised := _TRACEBACK.search(text):
        # Its message may have values of rows in it.
        return SparkError("TM-SPK-013", f"Python raised {raised[1]} on an executor")
    lines = _CALLED.sub("", text, count=1).splitlines()
    return SparkError("TM-SPK-013", next((line for line in lines if line.strip()), type(error).__name__))


def lost_session(error: Exception) -> SparkError | None:
    """That there is no session any more; None where the error is another one."""
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return SparkError(
            "TM-SPK-013",
            "the driver's JVM has ended",
            remedy=(
                "Java was killed, often by the system for lack of memory (its log says so), or has crashed "
                "(hs_err_pid*.log says why). What was applied stays applied: run the same command again, if need be "
                "with another --conf spark.driver.memory."
            ),
        )
    if "Cannot call methods on a stopped SparkContext" in str(error):
        return SparkError(
            "TM-SPK-013",
            "Spark has stopped the session: no master answered, or it ended the application",
            remedy=(
                "Check that the master (--master, or spark.master in the capture file) runs and can be reached from "
                "here, and what its log says. What was applied stays applied: run the same command again."
            ),
        )
    return None


def error_of(kind: str, code: str, message: str, remedy: str | None = None) -> TidemarkError:
    """An error that crossed processes as text. ``kind`` is the name of its class."""
    return _KINDS.get(kind, TidemarkError)(code, message, remedy=remedy)
