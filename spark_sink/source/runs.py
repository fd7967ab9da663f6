"""Divides things with a size into runs, each for one task or one file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar


class Sized(Protocol):
    """Something with a size in bytes."""

    @property
    def size(self) -> int: ...


Item = TypeVar("Item", bound=Sized)


def runs(items: Iterable[Item], most: float) -> Iterator[list[Item]]:
    """Divides items in their order into runs of at most ``most`` bytes. An item that exceeds it is a run by itself."""
    run: list[Item] = []
    size = 0
    for item in items:
        if run and size + item.size > most:
            yield run
            run, size = [], 0
        run.append(item)
        size += item.size
    if run:
        yield run
