"""Arrow as the writer of a change log needs it: without NumPy, and without pandas."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

_LEFT_OUT = frozenset({"numpy", "pandas"})


class _LeftOut(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name in _LEFT_OUT:
            raise ModuleNotFoundError(f"{name} is left out", name=name)
        return None


def load_arrow() -> None:
    """Imports Arrow, and lets it find neither NumPy nor pandas, unless they are imported already.

    Arrow does without them. It imports NumPy with itself, and pandas before its first array, to recognise their values:
    each takes longer than Arrow itself, and such values never come here. Other modules get both all the same.
    """
    finder = _LeftOut()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa
        import pyarrow.compute

        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
