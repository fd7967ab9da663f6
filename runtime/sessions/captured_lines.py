"""Finds runs of documents of one binding among lines: nearly all lines, cut by position and added together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidemark.protocol.codec import captured_prefix, verified_prefix

ENDS = b"}}}"
"""The end of a usual captured line, after its document. (A line that ends with its binding's number has two braces.)"""


class Run(NamedTuple):
    """Documents of consecutive lines.

    Attributes:
        verified: They are rows that are compared, and no events.
    """

    binding: int
    documents: list[bytes]
    verified: bool


class CapturedLines:
    """Knows the usual captured lines of so many bindings, and those of rows that are compared."""

    def __init__(self, bindings: int) -> None:
        # Both spellings of the start of a usual captured line: proto3 writers leave out binding 0.
        self._heads = {captured_prefix(index): (index, False) for index in range(bindings)}
        self._heads |= {verified_prefix(index): (index, True) for index in range(bindings)}
        self._heads[b'{"captured":{"doc":'] = 0, False

    def runs(self, lines: Iterable[bytes]) -> Iterator[Run | bytes]:
        """The lines in order: documents of one binding together; any other line by itself."""
        kind, start, cut = (-1, False), b"\n", 0  # no line starts with a newline
        documents: list[bytes] = []
        for line in lines:
            if line.startswith(start) and line.endswith(ENDS):
                documents.append(line[cut:-2])
                continue
            if documents:
                yield Run(kind[0], documents, kind[1])
                documents = []
            head = line[: line.find(b'"doc":', 12, 48) + 6]
            if (found := self._heads.get(head)) is not None:
                kind, start, cut = found, head + b"{", len(head)
                if line.startswith(start) and line.endswith(ENDS):
                    documents.append(line[cut:-2])
                    continue
            yield line
        if documents:
            yield Run(kind[0], documents, kind[1])
