"""The rows that Spark has of tables, as they are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from tidemark.protocol.capture_file import CaptureFile
from tidemark.runtime.verification.comparison import Kept
from tidemark.runtime.verification.subjects import Subject

if TYPE_CHECKING:
    from tidemark.spark_sink.live.kept_rows import KeptRows


@contextmanager
def kept_by(capture: CaptureFile) -> Iterator[Callable[[Subject], Kept | None]]:
    """Gives what reads the current table that Spark keeps of each subject; None without a ``spark`` entry.

    Args:
        capture: The capture file.
    """
    with ExitStack() as stack:

        @cache
        def kept() -> KeptRows:
            # Only this command needs it, it takes long, and an installation may lack it.
            from tidemark.spark_sink.spark.requirements import check_packages

            check_packages()
            from tidemark.spark_sink.live.kept_rows import KeptRows

            return stack.enter_context(KeptRows(capture))

        def of(subject: Subject) -> Kept | None:
            if capture.spark is None:
                return None
            return lambda offset, schema: kept().of(subject.name, offset, schema)

        yield of
