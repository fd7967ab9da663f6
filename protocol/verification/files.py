"""Where the rows of a verification lie, beside the change log, and what its files say.

::

    LOG/verify/public/orders/7/begin.json        the verification that command 7 asked for has begun
    LOG/verify/public/orders/7/00000001.parquet  keys and digests of the rows of its first chunk
    LOG/verify/public/orders/7/end.json          all chunks are there
    LOG/verify/public/orders/verified.json       what the last verification of the table has found

No commit names these files. Those of a run are durable before the commit whose connector state has them behind it, and
are written again where a connector was opened from a state before them. So they are right once ``end.json`` is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from tidemark.protocol.changelog import TableSchema
from tidemark.protocol.changelog.layout import collection_folder
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.verification.digests import DIGEST

FOLDER = "verify"

ROWS = pa.schema([("key", pa.string()), ("id", DIGEST), ("digest", DIGEST)])
"""A row of the source: its key for people, the digest of its key, and of all its values.

The last one is null for a row with a value that no column of the log holds.
"""

_OFFSET, _SCHEMA = b"offset", b"schema"

M = TypeVar("M", bound=BaseModel)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Begun(_Model):
    """``begin.json``.

    Attributes:
        offset: Every event from here on comes while rows are read; what is before was visible when the first was.
        generation: Of the events so far; None if they belong to none.
    """

    run: int
    offset: int
    generation: int | None
    time: datetime


class Ended(_Model):
    """``end.json``.

    Attributes:
        offset: No event from here on has come while rows were read.
        chunks: The number of the last chunk.
        rows: Of all chunks.
        why: Why not all rows have come; empty if they have.
        covered: The table can be verified at all.
        commit: The number of the commit that its state is in.
        epoch: That of the commit's writer. If another one has written it, the verification goes on.
    """

    run: int
    offset: int
    chunks: int
    rows: int
    why: str
    covered: bool
    commit: int
    epoch: int
    time: datetime


class Verified(_Model):
    """``verified.json``: what a verification has found.

    Attributes:
        run: The verification's.
        offset: The log was compared up to here.
        time: When the comparison ended.
        rows: Of the source.
        compared: Those of them that could be compared.
        different: How many rows of the log differ, are missing, or are too many.
        different_in_spark: The same of the table that Spark keeps; None where that was not compared.
    """

    run: int
    offset: int
    time: datetime
    rows: int
    compared: int
    different: int
    different_in_spark: int | None = None


def run_folder(collection: str, run: int) -> str:
    """The folder of a table's verification."""
    return f"{FOLDER}/{collection_folder(collection)}/{run}"


def begin_path(collection: str, run: int) -> str:
    return f"{run_folder(collection, run)}/begin.json"


def end_path(collection: str, run: int) -> str:
    return f"{run_folder(collection, run)}/end.json"


def chunk_path(collection: str, run: int, number: int) -> str:
    return f"{run_folder(collection, run)}/{number:08d}.parquet"


def verified_path(collection: str) -> str:
    return f"{FOLDER}/{collection_folder(collection)}/verified.json"


def chunk_bytes(rows: pa.Table, offset: int, schema: TableSchema) -> bytes:
    """The file of a chunk.

    Args:
        rows: As ``ROWS``.
        offset: Its rows are what the events before this offset give.
        schema: Of the table when it was read.
    """
    sink = pa.BufferOutputStream()
    said = {_OFFSET: str(offset).encode(), _SCHEMA: schema.model_dump_json().encode()}
    pq.write_table(rows.replace_schema_metadata(said), sink, compression="zstd")
    return bytes(sink.getvalue())


class Chunk:
    """A chunk that was read: see ``chunk_bytes``."""

    def __init__(self, rows: pa.Table) -> None:
        said = rows.schema.metadata
        self.rows = rows
        self.offset = int(said[_OFFSET])
        self.schema = TableSchema.model_validate_json(said[_SCHEMA])


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
            chunk = Chunk(pq.read_table(pa.BufferReader(store.read(path))))
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


def read_said(store: Store, path: str, kind: type[M]) -> M | None:
    """What a file of JSON says, as its model; None without the file.

    Raises:
        ChangeLogError: ``TM-LOG-002`` it is damaged; others as ``unreadable``.
    """
    try:
        return kind.model_validate_json(store.read(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(store.where(path), error) from None
    except ValidationError:
        raise ChangeLogError("TM-LOG-002", f"{store.where(path)} is damaged") from None
