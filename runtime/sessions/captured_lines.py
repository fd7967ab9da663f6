"""Finds runs of documents of one binding among lines: nearly all lines, cut by position and added together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemark.protocol.codec import captured_prefix

ENDS = b"}}}"
"""The end of a usual captured line, after its document. (A line that ends with its binding's number has two braces.)"""


class CapturedLines:
    """Knows the usual captured lines of so many bindings."""

    def __init__(self, bindings: int) -> None:
        # Both spellings of the start of a usual captured line: proto3 writers leave out binding 0.
        self._heads = {captured_prefix(index): index for index in range(bindings)} | {b'{"captured":{"doc":': 0}

    def runs(self, lines: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]] | bytes]:
        """The lines in order: documents of one binding together, with it; any other line by itself."""
        index, start, cut = -1, b"\n", 0  # no line starts with a newline
        documents: list[bytes] = []
        for line in lines:
            if line.startswith(start) and line.endswith(ENDS):
                documents.append(line[cut:-2])
                continue
            if documents:
                yield index, documents
                documents = []
            head = line[: line.find(b'"doc":', 12, 48) + 6]
            if (found := self._heads.get(head)) is not None:
                index, start, cut = found, head + b"{", len(head)
                if line.startswith(start) and line.endswith(ENDS):
                    documents.append(line[cut:-2])
                    continue
            yield line
        if documents:
            yield index, documents
