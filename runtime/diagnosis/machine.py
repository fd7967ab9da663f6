"""What runs here, in which versions."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.errors import SparkError
from tidemark.runtime.diagnosis.findings import Findings


def look_at_machine(file: CaptureFile, findings: Findings) -> None:
    """The versions of what runs here; of Java, PySpark and deltalake where the file has Spark keep tables."""
    python = ".".join(map(str, sys.version_info[:3]))
    findings.good(f"tidemark {version('tidemark')} with Python {python} on {platform.system()} {platform.machine()}")
    if file.spark is None:
        return
    from tidemark.spark_sink.spark.requirements import check_java, check_packages

    for what, check in (("PySpark and deltalake are", check_packages), ("Java is", check_java)):
        try:
            check()
            findings.good(f"{what} there, in a supported version")
        except SparkError as error:
            findings.bad(error)
