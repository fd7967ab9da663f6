"""A collection under one schema, as the log takes its documents."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence

from tidemark.protocol.changelog.models import TableSchema
from tidemark.runtime.changelog.documents.column_names import ColumnNames
from tidemark.runtime.changelog.documents.decoder import DocumentDecoder, Part, decoder, unknown_members
from tidemark.runtime.changelog.documents.quarantine import Misfit


class BoundCollection:
    """A collection under one schema, from ``LogWriter.bind``.

    Args:
        text: Columns that take any value and keep its text, as the source calls them.
        widens: Documents may have members that the schema lacks. Each becomes a column of JSON text with a name of
            these. None: they may not.
        generation: The number of the generation that its events belong to; None for none.

    Attributes:
        schema: The columns.
        fingerprint: Of the schema.
        generation: As the argument.
    """

    def __init__(
        self,
        schema: TableSchema,
        text: Collection[str] = (),
        *,
        widens: ColumnNames | None = None,
        generation: int | None = 1,
    ) -> None:
        self._text = frozenset(text)
        self._widens = widens
        self.generation = generation
        self._take(schema)

    def _take(self, schema: TableSchema) -> None:
        self.schema = schema
        self.fingerprint = schema.fingerprint
        self.decoder: DocumentDecoder = decoder(schema, self._text)

    def fit(
        self, parts: Sequence[tuple[list[bytes], array[int]]], *, whole: bool = False
    ) -> tuple[list[Part], list[Misfit]]:
        """Gathers documents with offsets, and separates those that do not fit. As ``DocumentDecoder.fit``."""
        fitting, misfits = self._fit(parts, whole)
        if misfits and self._widens is not None:
            more = unknown_members(self.schema, [misfit.document for misfit in misfits])
            if more:
                self._take(self._widens.widened(self.schema, more))
                return self._fit(parts, whole)
        return fitting, misfits

    def _fit(self, parts: Sequence[tuple[list[bytes], array[int]]], whole: bool) -> tuple[list[Part], list[Misfit]]:
        fitting: list[Part] = []
        misfits: list[Misfit] = []
        for documents, offsets in parts:
            found, apart = self.decoder.fit(documents, offsets, whole=whole)
            fitting += found
            misfits += apart
        return fitting, misfits
