"""Decodes rows of COPY's text format (PostgreSQL docs, COPY, "Text Format")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from captures.postgres.columns import Column
from captures.postgres.generated import (
    ROW_LIMIT,
    Constants,
    Member,
    Value,
    generate,
    join_key,
    key_expression,
    key_positions,
    members_function,
    misfit,
    spliced_members,
    too_large,
    unusual,
)

ChunkDecoder = Callable[[Sequence[bytes]], tuple[list[bytes], list[bytes]]]
"""Rows, each with its newline, to their tails and their keys.

A tail is what follows the comma after ``_meta`` in a captured line: ``"id":1,"name":"a"}}}`` and a newline. A key is
the texts of the key columns joined by NUL, the same as the log's. Raises SourceError ``TM-PG-030``, ``TM-PG-031``,
``TM-PG-034`` and ``TM-PG-037``.
"""

_END = "}}}\n"
_NULL = "\\N"


def compile_chunk_decoder(columns: Sequence[Column], key: Sequence[str], *, table: str = "") -> ChunkDecoder:
    """Generates the decoder of a table's chunks.

    Args:
        columns: What COPY selects, in order. At least one: a tail needs a first member.
        key: Names of the key columns, all among ``columns``.
        table: ``schema.table``, for errors.
    """
    if not columns:
        raise ValueError("a chunk without columns has no tails")
    members = [Member(place, column) for place, column in enumerate(columns)]
    positions = key_positions([column.name for column in columns], key)
    count = len(columns)

    def failure(line: str) -> Exception:
        try:
            row = _fields(line)
        except ValueError:
            row = None
        return misfit(table, members, row, count)

    def oversize(rows: Sequence[bytes], sizes: Sequence[int]) -> Exception:
        return too_large(table, members, _fields(rows[sizes.index(max(sizes))].decode("latin-1")))

    constants = Constants()
    namespace = {
        "failure": failure,
        "oversize": oversize,
        "unescape": _unescape,
        "join_key": join_key,
        "POSITIONS": positions,
        "ROW_LIMIT": ROW_LIMIT,
    }
    lines = [
        *members_function(members, count, constants, may_be_unchanged=False),
        *_exact_function(count, constants),
        *_decode_function(members, positions, constants),
    ]
    functions = generate("chunk decoder", lines, members, {**namespace, **constants.namespace()})
    decode: ChunkDecoder = functions["decode"]
    return decode


def _decode_function(members: Sequence[Member], positions: Sequence[int], constants: Constants) -> list[str]:
    """``decode(rows)``: a row without a backslash has neither NULL nor escapes, and is spliced at once."""
    spliced = spliced_members(members, constants, "v", 0, opening="", closing=_END, first=True)
    append = [
        "tails.append((",
        *(f"    {line}" for line in spliced),
        ').encode("latin-1"))',
        f"keys.append({key_expression(positions, constants, 0)})",
        "continue",
    ]
    conditions = unusual(members, "v", 0)
    if conditions:
        append = [f"if not ({' or '.join(conditions)}):", *(f"    {line}" for line in append)]
    return [
        "def decode(rows):",
        "    tails = []",
        "    keys = []",
        "    for row in rows:",
        '        line = row.decode("latin-1")',
        "        try:",
        f"            if {constants.name(chr(92))} not in line:",
        f"                {_variables(len(members))} = line[:-1].split({constants.name(chr(9))})",
        *(f"                {line}" for line in append),
        "            tail, key = exact(line)",
        "        except MISFITS:",
        "            raise failure(line) from None",
        "        tails.append(tail)",
        "        keys.append(key)",
        "    sizes = list(map(len, tails))",
        "    if sizes and max(sizes) > ROW_LIMIT:",
        "        raise oversize(rows, sizes)",
        "    return tails, keys",
    ]


def _exact_function(count: int, constants: Constants) -> list[str]:
    """``exact(line)``: the tail and the key of any row."""
    backslash, null, tab = constants.name(chr(92)), constants.name(_NULL), constants.name(chr(9))
    return [
        "def exact(line):",
        f"    {_variables(count)} = line[:-1].split({tab})",
        *(
            line
            for i in range(count)
            for line in (
                f"    if {backslash} in v{i}:",
                f"        v{i} = None if v{i} == {null} else unescape(v{i})",
            )
        ),
        f"    tail = members({', '.join(f'v{i}' for i in range(count))})[1:] + {constants.name(_END)}",
        f'    return tail.encode("latin-1"), join_key(({_variables(count)}), POSITIONS)',
        "",
    ]


def _variables(count: int) -> str:
    return "".join(f"v{i}, " for i in range(count)).rstrip()


def _unescape(text: str) -> str:
    """COPY prints the escapes b, f, n, r, t, v and the backslash, and no other: Python's codec has them all."""
    return text.encode("latin-1").decode("unicode_escape")


def _fields(line: str) -> list[Value]:
    return [None if field == _NULL else _unescape(field) for field in line[:-1].split("\t")]
