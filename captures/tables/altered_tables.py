"""Tables that were found altered before the log has shown it, which only changes of their rows make it do."""

from __future__ import annotations

from collections.abc import Callable


class AlteredTables:
    """Those of a capture. They are kept until the log was read to where they were altered."""

    def __init__(self) -> None:
        # By binding, where the server's log ended after the change; None until that was asked.
        self._ends: dict[int, int | None] = {}

    def __bool__(self) -> bool:
        return bool(self._ends)

    def add(self, binding: int, end: int | None = None) -> None:
        """The table of this binding is not what the log has shown.

        Args:
            end: Where the server's log ended after the change, if that is known.
        """
        self._ends.setdefault(binding, end)

    def forget(self, binding: int) -> None:
        """The catalog was read again."""
        self._ends.pop(binding, None)

    def due(self, position: int, now: Callable[[], int]) -> list[int]:
        """The bindings whose rows of before the change have all been read from the log. They are forgotten here.

        Args:
            position: How far the log was read.
            now: Where the server's log ends. The change was committed when it was found, so it lies before that.
        """
        if found := [binding for binding, end in self._ends.items() if end is None]:
            self._ends.update(dict.fromkeys(found, now()))
        passed = [binding for binding, end in self._ends.items() if end is not None and position >= end]
        for binding in passed:
            self.forget(binding)
        return passed
