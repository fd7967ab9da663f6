"""Arrow as the writer of a change log needs it: without NumPy, and without pandas."""

from __future__ import annotations

import os
import sys
import threading
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

_SMALL_PAGES = "MIMALLOC_ALLOW_THP"
"""The allocator that Arrow brings reads it when it is loaded. With huge pages, Linux clears two megabytes for a buffer
of half a megabyte, again and again: a third of a verification's processor time, a twentieth of a capture's."""

_LEFT_OUT = frozenset({"numpy", "pandas"})


class _LeftOut(MetaPathFinder):
    """Finds nothing, and ends the search of the thread that made it for a module that is left out."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name in _LEFT_OUT and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is left out", name=name)
        return None


def load_arrow() -> None:
    """Imports Arrow without huge pages, and lets it find neither NumPy nor pandas, unless they are imported already.

    Arrow does without them. It imports NumPy with itself, and pandas before its first array, to recognise their values:
    each takes longer than Arrow itself, and such values never come here. Other modules and threads get both all the
    same.
    """
    finder = _LeftOut()
    given = os.environ.get(_SMALL_PAGES)
    os.environ.setdefault(_SMALL_PAGES, "0")
    # Another list each time: a search of another thread counts places in the one it began with, and would pass over
    # the finder of files when a place before it goes.
    sys.meta_path = [finder, *sys.meta_path]
    try:
        import pyarrow as pa
        import pyarrow.compute

        pa.array([0])
    finally:
        sys.meta_path = [other for other in sys.meta_path if other is not finder]
        if given is None:
            del os.environ[_SMALL_PAGES]
