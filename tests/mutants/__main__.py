"""Switches off each rule of the real code, and sees that tests against real servers notice.

::

    python -m tests.mutants                 # all of them, half an hour
    python -m tests.mutants -k snapshot     # those with this word in their name or file
    python -m tests.mutants --list
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.mutants.model import Mutant, NotRun, caught, copied_to, passes
from tests.mutants.mysql import MYSQL
from tests.mutants.postgres import POSTGRES

MUTANTS = (*POSTGRES, *MYSQL)


def listed() -> str:
    """All of them in Markdown, as CONTRIBUTING.md has them."""
    by_file: dict[str, list[str]] = {}
    for mutant in MUTANTS:
        by_file.setdefault(mutant.file, []).append(mutant.name)
    return "\n".join(f"- `{file}`: {'; '.join(names)}" for file, names in by_file.items())


def main() -> int:
    """Runs the command; the exit status is 1 where a mutant survived or could not be tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-k", metavar="TEXT", default="", help="only those with this in their name or file")
    parser.add_argument("--list", action="store_true", help="say what there is, as CONTRIBUTING.md has it; run nothing")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if arguments.k in f"{mutant.name} {mutant.file}"]
    if arguments.list:
        _say(listed())
        return 0
    wrong = []
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        copy = copied_to(Path(folder))
        for number, mutant in enumerate(chosen, start=1):
            verdict = _verdict(copy, mutant)
            _say(f"{number} of {len(chosen)}: {verdict}: {mutant.file}: {mutant.name}")
            if verdict != "caught":
                wrong.append(mutant)
    _say(f"{len(chosen) - len(wrong)} of {len(chosen)} caught")
    return 1 if wrong or not chosen else 0


def _verdict(copy: Path, mutant: Mutant) -> str:
    try:
        if caught(copy, mutant):
            # It was the mutant, and not a test that fails anyway.
            return "caught" if passes(copy, mutant.tests) else "not told: its tests fail without it"
    except (NotRun, ValueError) as error:
        return f"not tried: {error}"
    return "SURVIVED"


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a command's own output


if __name__ == "__main__":
    raise SystemExit(main())
