"""Names of files in a change log.

::

    LOG/tidemark.json                                        what this log is; written once
    LOG/commits/00000000000000000042.json                    commit 42; created exclusively, never changed
    LOG/commits/checkpoint-00000000000000000100.json         a summary of all up to commit 100
    LOG/data/public/orders/00000000000000000042-3-0.parquet  commit 42, writer epoch 3, first segment of it
"""

from __future__ import annotations

import re
from urllib.parse import quote

HEADER = "tidemark.json"
COMMITS = "commits"
DATA = "data"
LOCK = "writer.lock"

SUMMARY_EVERY = 100
"""A summary follows every commit whose number divides by this."""

_COMMIT = re.compile(r"(\d{20})\.json")
_SUMMARY = re.compile(r"checkpoint-(\d{20})\.json")


def commit_name(number: int) -> str:
    return f"{number:020d}.json"


def summary_name(number: int) -> str:
    return f"checkpoint-{number:020d}.json"


def commit_number(name: str) -> int | None:
    """The number in a commit's file name; None for any other file."""
    match = _COMMIT.fullmatch(name)
    return int(match[1]) if match else None


def summary_number(name: str) -> int | None:
    match = _SUMMARY.fullmatch(name)
    return int(match[1]) if match else None


def segment_path(collection: str, commit: int, epoch: int, index: int) -> str:
    """Where a segment lies, relative to the log. The epoch keeps two writers of one commit number apart."""
    folder = "/".join(
        quote(part, safe=" !$&'()+,;=@[]{}~") if part not in (".", "..") else part.replace(".", "%2E")
        for part in collection.split("/")
    )
    return f"{DATA}/{folder}/{commit:020d}-{epoch}-{index}.parquet"
