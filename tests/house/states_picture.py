"""The picture in docs/running.md of the states of a table's capture, from the type that has them.

python -m tests.house.states_picture          write it
python -m tests.house.states_picture --check  write nothing; exit 1 if it is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

from tests.house.files import ROOT
from tests.house.written_page import write_or_check
from tidemark.captures.scheduling.table_states import TableState, opened_state

PAGE = ROOT / "docs" / "running.md"

_PICTURE = re.compile(r"(?<=`python -m tests\.house\.states_picture`\. -->\n).*?(?=<!-- /states -->)", re.DOTALL)

STATES: tuple[type, ...] = get_args(TableState)


def picture() -> str:
    """A state diagram in Mermaid: each state with its sentence, and the methods that lead from it to another."""
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += (f"    {state.__name__}: {_words(state.__name__)}" for state in STATES)
    lines += (f"    [*] --> {state.__name__}" for state in _reached(opened_state))
    for state in STATES:
        for _, method in inspect.getmembers(state, inspect.isfunction):
            lines += (f"    {state.__name__} --> {other.__name__}: {_sentence(method)}" for other in _reached(method))
    lines += ["```", ""]
    lines += (f"- *{_words(state.__name__)}*: {_sentence(state)}." for state in STATES)
    return "\n".join(lines) + "\n"


def page(path: Path = PAGE) -> str:
    """The page with the picture as it has to be."""
    content, count = _PICTURE.subn(lambda _: picture(), path.read_text(encoding="utf-8"))
    assert count == 1, f"{path.name} has no place for the picture"
    return content


def _reached(function: object) -> Iterator[type]:
    """The states that a function returns; none if it returns anything else."""
    returned = get_type_hints(function).get("return")
    kinds = get_args(returned) or (returned,)
    return (state for state in STATES if state in kinds)


def _words(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()


def _sentence(of: object) -> str:
    """What a docstring says first, without its beginning and end as a sentence."""
    first = re.sub(r"\s+", " ", inspect.getdoc(of) or "").partition("Attributes:")[0].partition("Args:")[0].strip()
    return first[0].lower() + first[1:].rstrip(".")


def main(arguments: list[str] | None = None, path: Path = PAGE) -> int:
    """Writes or checks the page. Returns the exit status."""
    return write_or_check(path, page(path), "tests.house.states_picture", arguments)


if __name__ == "__main__":
    sys.exit(main())
