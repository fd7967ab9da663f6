"""The script that ``tidemark check --fix-sql`` prints: the statements that remedies name, and optional ones.

A connector gives a remedy as a text in which statements stand. Names in them may be anybody's choice, so what is not
surely a statement of the remedy is a comment, and so is what drops or ends something: a person decides about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

STATEMENT = re.compile(
    r"\b(?:ALTER|CALL|COMMENT|CREATE|DROP|FLUSH|GRANT|SELECT|SET GLOBAL|SHOW)\b"
    r"(?:\"(?:[^\"]|\"\")*\"|'(?:[^'\\]|''|\\.)*'|`(?:[^`]|``)*`|[^;\"'`])*;"
)
"""A statement in a remedy, as a person would copy it."""

_TO_RUN = re.compile(rf"Run[^:;]{{0,60}}: ((?:{STATEMENT.pattern}\s*)+)")
_DECIDED_BY_A_PERSON = re.compile(r"DROP|SELECT pg_(?:drop|terminate)_\w+")


class Fix(NamedTuple):
    """What is wrong, and what to do.

    Attributes:
        what: The problem, with its code.
        remedy: A text that names the statements.
    """

    what: str
    remedy: str


class OptionalPart(NamedTuple):
    """Statements that nothing needs.

    Attributes:
        what: What they make, in a sentence.
        sql: The statements, with comments that say what they give and how to remove it.
    """

    what: str
    sql: str


def script(fixes: Iterable[Fix], optional: Iterable[OptionalPart]) -> str:
    """The whole script. Run statement by statement, or as a whole where nothing is left as a comment."""
    parts = [_fix(fix) for fix in fixes] or ["-- Nothing is missing that a statement would fix.\n"]
    parts += [f"{_comment(f'Optional: {part.what}')}{part.sql.strip()}\n" for part in optional]
    return "\n".join(parts)


def _fix(fix: Fix) -> str:
    head = _comment(fix.what)
    found = _TO_RUN.match(fix.remedy)
    statements = [] if found is None else STATEMENT.findall(found[1])
    if found is None or any(_DECIDED_BY_A_PERSON.match(each) for each in statements):
        return head + _comment(f"What to do: {fix.remedy}")
    rest = fix.remedy[found.end() :].strip()
    intro = fix.remedy[: found.start(1)].strip()
    return head + _comment(intro) + "".join(f"{each}\n" for each in statements) + (_comment(rest) if rest else "")


def _comment(text: str) -> str:
    """The text as comments, of one line for each of its own: no name in it can end the comment."""
    return "".join(f"-- {line}\n" for line in text.splitlines() or [""])
