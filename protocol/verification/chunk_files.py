"""The files of a verification that hold rows: one for each chunk of the source.

A row of the source is the columns of its key, with names of their own (``key_names``), two digests of the key (``id``
and ``id_2``), and that of all its values (``digest``). The last one is null for a row with a value that no column of
the log holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidemark.protocol.changelog import TableSchema
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.verification.digests import DIGEST, SEEDS, VERSION, digests, digests_of_parts
from tidemark.protocol.verification.files import Ended, chunk_path, run_folder

_OFFSET, _SCHEMA, _DIGESTS = b"offset", b"schema", b"digests"


def key_names(schema: TableSchema) -> list[str]:
    """What the columns of a table's key are called here."""
    return [f"key_{place}" for place in range(len(schema.key))]


def digested(values: pa.Table, schema: TableSchema) -> pa.Table:
    """Rows as above.

    Args:
        values: Rows with the columns of the schema, in the log's types.
        schema: The table's.
    """
    names = [column.name for column in schema.columns]
    key = [names.index(name) for name in schema.key]
    parts = [(key, SEEDS[0]), (key, SEEDS[1]), (range(len(names)), SEEDS[0])]
    found = digests_of_parts([values.column(name) for name in names], values.num_rows, parts)
    return _table([values.column(name) for name in schema.key], *found)


def without_digests(key: pa.Table) -> pa.Table:
    """Rows as above that cannot be compared.

    Args:
        key: The columns of their keys, in the order of the key.
    """
    ids = [digests(key.columns, key.num_rows, seed) for seed in SEEDS]
    return _table(key.columns, *ids, pa.nulls(key.num_rows, DIGEST))


def _table(key: Sequence[Any], *digests: Any) -> pa.Table:
    names = [f"key_{place}" for place in range(len(key))]
    return pa.Table.from_arrays([*key, *digests], names=[*names, "id", "id_2", "digest"])


def chunk_bytes(rows: pa.Table, offset: int, schema: TableSchema) -> bytes:
    """The file of a chunk, in Arrow's format: Parquet takes ten times as long, and makes digests no smaller.

    Args:
        rows: As above.
        offset: Its rows are what the events before this offset give.
        schema: Of the table when it was read.
    """
    sink = pa.BufferOutputStream()
    said = {
        _OFFSET: str(offset).encode(),
        _SCHEMA: schema.model_dump_json().encode(),
        _DIGESTS: str(VERSION).encode(),
    }
    rows = rows.replace_schema_metadata(said).combine_chunks()
    with pa.ipc.new_file(sink, rows.schema) as file:
        file.write_table(rows)
    return bytes(sink.getvalue())


class Chunk:
    """A chunk that was read: see ``chunk_bytes``.

    Attributes:
        comparable: Its digests are made as ours are. A capture that runs may be of another version.
    """

    def __init__(self, rows: pa.Table) -> None:
        said = rows.schema.metadata or {}
        self.rows = rows
        self.offset = int(said[_OFFSET])
        self.schema = TableSchema.model_validate_json(said[_SCHEMA])
        self.comparable = said.get(_DIGESTS) == str(VERSION).encode()


def read_chunks(store: Store, collection: str, ended: Ended) -> Iterator[Chunk]:
    """The chunks of a verification, in the order in which they came.

    Raises:
        ChangeLogError: ``TM-LOG-009`` one is missing or damaged, or they do not have the rows that ``ended`` states;
            others as ``unreadable``.
    """
    rows = 0
    for number in range(1, ended.chunks + 1):
        path = chunk_path(collection, ended.run, number)
        try:
            with pa.ipc.open_file(pa.BufferReader(store.read(path))) as file:
                chunk = Chunk(file.read_all())
        except FileNotFoundError:
            raise ChangeLogError("TM-LOG-009", f"{store.where(path)} is missing") from None
        except OSError as error:
            raise unreadable(store.where(path), error) from None
        except (pa.ArrowException, KeyError, ValueError) as error:
            what = str(error).partition("\n")[0]
            raise ChangeLogError("TM-LOG-009", f"{store.where(path)} is damaged: {what}") from None
        rows += chunk.rows.num_rows
        yield chunk
    if rows != ended.rows:
        folder = store.where(run_folder(collection, ended.run))
        raise ChangeLogError("TM-LOG-009", f"{folder} is damaged: it has {rows} rows, not {ended.rows}")
