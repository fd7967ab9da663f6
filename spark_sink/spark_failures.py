"""Finds our own error in what Spark raises: an error of the source crosses two processes as text."""

from __future__ import annotations

import re
from collections.abc import Callable

from protocol.error_codes import CODES
from protocol.errors import ChangeLogError, SparkError, TidemarkError

_OURS = re.compile(r"protocol\.errors\.(\w+): (TM-[A-Z]+-\d{3}): ([^\n]*)")
_KINDS: dict[str, type[TidemarkError]] = {kind.__name__: kind for kind in (ChangeLogError, SparkError)}

_HOST = re.compile(r"\(TID \d+\) \((\S+) executor \w+\)")
_LACKS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'"),
        lambda found: f"lacks the Python package {found[1]}",
    ),
    (
        re.compile(r"different version: \(?'?([\d., ]+)'?\)? than that in driver: \(?'?([\d., ]+?)'?\)?,"),
        lambda found: f"has Python {found[1]}, the driver {found[2]}",
    ),
    (
        re.compile(r"PACKAGE_NOT_INSTALLED\] (\w+)"),
        lambda found: f"lacks the Python package {found[1]}",
    ),
    (
        re.compile(r'Cannot run program "([^"\n]+)"'),
        lambda found: f"cannot run {found[1]}",
    ),
)
"""What a worker of Python says that could not begin, and what it means."""


def spark_exceptions() -> tuple[type[Exception], ...]:
    """What PySpark raises when Spark fails: its own exceptions, and those of the JVM that it does not translate."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ModuleNotFoundError:  # The client of Connect alone has no JVM.
        return (PySparkException,)
    return (PySparkException, Py4JError)


def tidemark_error(error: Exception) -> TidemarkError:
    """The error that made Spark fail.

    It is ours where one of ours is in it; ``TM-SPK-020`` where an executor lacks a Python or a package; else
    ``TM-SPK-013`` with the first line of Spark's own.
    """
    text = str(error)
    if ours := _OURS.search(text):
        name, code, message = ours.groups()
        if code in CODES:
            return _KINDS.get(name, TidemarkError)(code, message.strip())
    for pattern, meaning in _LACKS:
        if found := pattern.search(text):
            host = _HOST.search(text)
            return SparkError("TM-SPK-020", f"{host[1] if host else 'an executor'} {meaning(found)}")
    return SparkError("TM-SPK-013", next((line for line in text.splitlines() if line.strip()), type(error).__name__))
