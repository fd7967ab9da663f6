"""``python -m tidemark.runtime`` is the ``tidemark`` command."""

from __future__ import annotations

from typing import NoReturn

from tidemark.protocol.process_memory import collect_never


def run() -> NoReturn:
    """Runs the command, and ends the process with its exit status."""
    collect_never()  # First: searches for cycles were an eighth of the time of the imports.
    from tidemark.runtime.cli import main

    main()


if __name__ == "__main__":
    run()
