"""How often Python searches for cycles: objects that refer to each other, and to which nothing else does."""

from __future__ import annotations

import gc

_OBJECTS = 20_000
"""New objects between two searches. Rows, transactions and tables have no cycles; Python's default is 700."""


def collect_never() -> None:
    """Makes Python search no more, until ``collect_rarely``.

    What is imported stays. Searches in between took a tenth of the time of a short process, and more with the default.
    """
    gc.disable()


def collect_rarely() -> None:
    """Makes Python search less often than by default, and not in what there is by now.

    Searches took a twelfth of a connector's time with small transactions, and a quarter of the runtime's with thousands
    of tables.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    gc.enable()
