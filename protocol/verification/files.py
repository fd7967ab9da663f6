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

from datetime import datetime
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemark.protocol.changelog.layout import collection_folder
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store

FOLDER = "verify"

VERIFIED = "verified.json"

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
        collection: The table's.
        run: The verification's.
        offset: The log was compared up to here.
        time: When the comparison ended.
        rows: Of the source.
        compared: Those of them that could be compared.
        different: How many rows of the log differ, are missing, or are too many.
        different_in_spark: The same of the table that Spark keeps; None where that was not compared.
        repaired: These rows were read again since.
    """

    collection: str
    run: int
    offset: int
    time: datetime
    rows: int
    compared: int
    different: int
    different_in_spark: int | None = None
    repaired: bool = False


def run_folder(collection: str, run: int) -> str:
    """The folder of a table's verification."""
    return f"{FOLDER}/{collection_folder(collection)}/{run}"


def begin_path(collection: str, run: int) -> str:
    return f"{run_folder(collection, run)}/begin.json"


def end_path(collection: str, run: int) -> str:
    return f"{run_folder(collection, run)}/end.json"


def chunk_path(collection: str, run: int, number: int) -> str:
    return f"{run_folder(collection, run)}/{number:08d}.arrow"


def verified_path(collection: str) -> str:
    return f"{FOLDER}/{collection_folder(collection)}/{VERIFIED}"


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
