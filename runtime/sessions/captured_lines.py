"""Finds runs of documents of one binding among lines: nearly all lines, cut by position and added together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidemark.protocol.codec import captured_prefix, verified_prefix
from tidemark.runtime.changelog.batch import LARGE_BYTES

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

    def runs(self, lines: list[bytes]) -> Iterator[Run | bytes]:
        """The lines in order: documents of one binding together; any other line by itself.

        A large line is taken out of ``lines`` once its document is cut out: the memory of both is too much.
        """
        kind, start, cut = (-1, False), b"\n", 0  # no line starts with a newline
        documents: list[bytes] = []
        for place, line in enumerate(lines):
            usual = line.startswith(start) and line.endswith(ENDS)
            if not usual:
                if documents:
                    yield Run(kind[0], documents, kind[1])
                    documents = []
                head = line[: line.find(b'"doc":', 12, 48) + 6]
                if (found := self._heads.get(head)) is not None:
                    kind, start, cut = found, head + b"{", len(head)
                    usual = line.startswith(start) and line.endswith(ENDS)
            if not usual:
                yield line
                continue
            documents.append(line[cut:-2])
            if len(line) >= LARGE_BYTES:
                lines[place] = line = b""
        if documents:
            yield Run(kind[0], documents, kind[1])
