"""Arrow as the writer of a change log needs it: without pandas."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)
        return None


def leave_pandas_out() -> None:
    """Lets Arrow find no pandas, unless that is imported already.

    Before its first array Arrow looks for pandas, whose values it would recognise, and imports it: that takes longer
    than Arrow itself, and such values never come here. Whoever asks Arrow for pandas later gets it all the same.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
