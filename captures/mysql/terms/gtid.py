"""Ids of transactions, and sets of GTIDs: MySQL has intervals per server (and tag), MariaDB the last number per domain.

MySQL: "GTID sets" in the reference manual; the binary form that COM_BINLOG_DUMP_GTID takes is that of
PREVIOUS_GTIDS events. MariaDB: "Global transaction ID" in its knowledge base.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from uuid import UUID

from tidemark.protocol.errors import SourceError

_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_MARIADB = re.compile(r"\d+-\d+-\d+", re.ASCII)
_COUNT = struct.Struct("<Q")
_INTERVAL = struct.Struct("<QQ")


class MysqlGtids:
    """A set as text ``uuid:1-5:7,uuid:tag:1-3``, in any case, with white space. Raises SourceError ``TM-MY-055``."""

    def __init__(self, text: str = "") -> None:
        # First numbers and ends (exclusive) of the intervals of each server, by "uuid" or "uuid:tag".
        self._sources: dict[str, tuple[list[int], list[int]]] = {}
        self._text: str | None = None
        try:
            for entry in "".join(text.split()).lower().split(","):
                if entry:
                    self._parse(entry)
        except ValueError:
            raise SourceError("TM-MY-055", f"{text[:80]!r} is not a set of GTIDs") from None

    def _parse(self, entry: str) -> None:
        uuid, *parts = entry.split(":")
        source = uuid = str(UUID(uuid))
        for part in parts:
            if part[:1].isdigit():
                first, _, last = part.partition("-")
                for number in (int(first), int(last or first)):
                    if number < 1:
                        raise ValueError
                self._cover(source, int(first), int(last or first) + 1)
            elif _TAG.fullmatch(part):
                source = f"{uuid}:{part}"
            else:
                raise ValueError

    def add(self, gtid: str) -> None:
        """Adds one, ``uuid:n`` or ``uuid:tag:n``."""
        source, _, number = gtid.rpartition(":")
        n = int(number)
        _, ends = self._sources.setdefault(source, ([], []))
        if ends and ends[-1] == n:
            ends[-1] = n + 1  # nearly always
        else:
            self._cover(source, n, n + 1)
        self._text = None

    def without(self, gtid: str) -> str:
        """The text of the set without one of its members."""
        rest = MysqlGtids(str(self))
        source, _, number = gtid.rpartition(":")
        n = int(number)
        starts, ends = rest._sources[source]
        place = bisect_right(starts, n) - 1
        intervals = ((starts[place], n), (n + 1, ends[place]))
        kept = [(start, end) for start, end in intervals if start < end]
        starts[place : place + 1], ends[place : place + 1] = [s for s, _ in kept], [e for _, e in kept]
        if not starts:
            del rest._sources[source]
        return str(rest)

    def _cover(self, source: str, start: int, end: int) -> None:
        starts, ends = self._sources.setdefault(source, ([], []))
        low = bisect_right(ends, start - 1)
        high = bisect_right(starts, end)
        if low < high:
            start, end = min(start, starts[low]), max(end, ends[high - 1])
        starts[low:high], ends[low:high] = [start], [end]

    def __contains__(self, gtid: str) -> bool:
        source, _, number = gtid.rpartition(":")
        starts, ends = self._sources.get(source, ([], []))
        place = bisect_right(starts, int(number)) - 1
        return place >= 0 and int(number) < ends[place]

    def contains_all(self, other: MysqlGtids) -> bool:
        """Whether every GTID of ``other`` is in this set."""
        for source, (starts, ends) in other._sources.items():
            ours = self._sources.get(source, ([], []))
            for start, end in zip(starts, ends, strict=True):
                place = bisect_right(ours[0], start) - 1
                if place < 0 or ours[1][place] < end:
                    return False
        return True

    def encode(self) -> bytes:
        """The binary form. With tags (MySQL 8.3) it has another header."""
        sources = sorted(self._sources)
        tagged = any(":" in source for source in sources)
        # With tags the lowest and highest byte give the format, the six between them the number of sources.
        out = [_COUNT.pack(1 | len(sources) << 8 | 1 << 56 if tagged else len(sources))]
        for source in sources:
            uuid, _, tag = source.partition(":")
            starts, ends = self._sources[source]
            out.append(UUID(uuid).bytes)
            if tagged:
                out.append(bytes([len(tag) << 1]) + tag.encode())  # The length as MySQL's serialization library has it.
            out.append(_COUNT.pack(len(starts)))
            out += map(_INTERVAL.pack, starts, ends)
        return b"".join(out)

    def __str__(self) -> str:
        if self._text is None:
            entries: dict[str, str] = {}
            for source in sorted(self._sources):
                uuid, _, tag = source.partition(":")
                starts, ends = self._sources[source]
                numbers = ":".join(
                    f"{start}-{end - 1}" if end - start > 1 else f"{start}"
                    for start, end in zip(starts, ends, strict=True)
                )
                entries[uuid] = ":".join(filter(None, (entries.get(uuid, uuid), tag, numbers)))
            self._text = ",".join(entries.values())
        return self._text


class MariadbGtids:
    """A position as text ``0-1-5,2-1-7``: the last transaction of each domain. Raises SourceError ``TM-MY-055``."""

    def __init__(self, text: str = "") -> None:
        self._domains: dict[str, str] = {}
        for entry in "".join(text.split()).split(","):
            if entry and not _MARIADB.fullmatch(entry):
                raise SourceError("TM-MY-055", f"{text[:80]!r} is not a position of GTIDs")
            if entry:
                self.add(entry)

    def add(self, gtid: str) -> None:
        """The domain's last transaction is this one now: ``domain-server-n``, without zeros in front."""
        domain, _, rest = gtid.partition("-")
        self._domains[domain] = rest

    def __contains__(self, gtid: str) -> bool:
        domain, _, number = gtid.split("-")
        return int(number) <= int(self._domains.get(domain, "0-0").partition("-")[2])

    def __str__(self) -> str:
        return ",".join(f"{domain}-{self._domains[domain]}" for domain in sorted(self._domains, key=int))


Gtids = MysqlGtids | MariadbGtids


def transaction_id(gtid: str, server: str, end: int, xid: str = "") -> str:
    """The id of a transaction of MariaDB.

    The position says exactly whether a snapshot shows it, but is valid on one server only. On another one, after a
    failover, its GTID must suffice.

    Args:
        gtid: ``domain-server-number``.
        server: ``server_name`` of the one whose log was read.
        end: The position after its commit in that log.
        xid: Of the prepared transaction that it commits, as ``xa_id`` writes it.
    """
    return f"{gtid}@{server}:{end}@{xid}" if xid else f"{gtid}@{server}:{end}"


def xa_id(transaction: bytes, branch: bytes, form: int) -> str:
    """An XA transaction's id as the log's statements write it, in lower case: ``X'61',X'',1``."""
    return f"x'{transaction.hex()}',x'{branch.hex()}',{form}"
