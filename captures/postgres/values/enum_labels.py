"""The labels of enums that rows of the log have, beside those that the catalogs had.

An enum value in the log has the label of its time. A label that is added, used and renamed between two looks at the
catalogs is in no catalog that was read, and the renamed one looks like one that was only added. Therefore the decoders
collect the labels that a table's fingerprint does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tidemark.captures.postgres.values.json_values import Convert, string


class EnumLabels:
    """The labels of the enums of one table.

    Args:
        known: The labels that need not be collected, by the oid of their type. Types that are missing are no enums.
        show: Called once with each label that is not known: the oid of its type, and the label.
    """

    def __init__(self, known: Mapping[int, Collection[str]], show: Callable[[int, str], None]) -> None:
        self._known = known
        self._show = show

    def conversion(self, oid: int) -> Convert:
        """Converts labels of one enum to JSON."""
        if oid not in self._known:
            return string
        return _Converted(oid, self._known[oid], self._show).__getitem__


class _Converted(dict[str, str]):
    """JSON by label, both as byte texts. Labels are few, so it stays small."""

    def __init__(self, oid: int, known: Collection[str], show: Callable[[int, str], None]) -> None:
        super().__init__()
        self._oid = oid
        self._known = known
        self._show = show

    def __missing__(self, text: str) -> str:
        label = text.encode("latin-1").decode(errors="replace")
        if label not in self._known:
            self._show(self._oid, label)
        made = self[text] = string(text)
        return made
