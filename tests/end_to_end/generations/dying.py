"""``dying.py FOLDER MODULE ARGUMENT…`` does what ``python -m MODULE ARGUMENT…`` does, up to an armed failpoint.

The failpoints are before and after a connector, or a runtime, does its part for the begin of a generation or for its
being whole. One is armed by a file of its name in the folder. The process removes the file and kills itself, so the
next one goes on. It is run by its path, so it finds nothing but what is installed.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

BEGIN, WHOLE = "begin", "whole"
CONNECTOR, RUNTIME = "connector", "runtime"


def failpoint(process: str, moment: str, what: str) -> str:
    """The name of one; ``moment`` is before or after."""
    return f"{process} {moment} {what}"


def main() -> None:
    folder, module, *arguments = sys.argv[1:]

    def reach(name: str) -> None:
        place = Path(folder, name)
        if place.exists():
            place.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    if module == "tidemark.runtime":
        _in_runtime(reach)
    else:
        _in_connector(reach)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _in_connector(reach: Callable[[str], None]) -> None:
    """Before a message is written, and once the first checkpoint after it is acknowledged."""
    from tidemark.captures.engine.announcements import Announcements
    from tidemark.captures.engine.checkpoints import Checkpoints
    from tidemark.protocol.messages import BackfillBegin, BackfillComplete

    places: dict[type[Any], str] = {BackfillBegin: BEGIN, BackfillComplete: WHOLE}
    written: list[str] = []
    write, durable = Announcements._write, Checkpoints.durable

    def writing(self: Announcements, message: Any) -> None:
        what = places.get(type(message))
        if what is not None:
            reach(failpoint(CONNECTOR, "before", what))
            written.append(what)
        write(self, message)

    def acknowledged(self: Checkpoints) -> Any:
        outstanding = len(self._outstanding)
        result = durable(self)
        if len(self._outstanding) < outstanding:
            for what in written:
                reach(failpoint(CONNECTOR, "after", what))
            written.clear()
        return result

    Announcements._write = writing  # type: ignore[method-assign]
    Checkpoints.durable = acknowledged  # type: ignore[method-assign]


def _in_runtime(reach: Callable[[str], None]) -> None:
    """Before and after the commit that states it."""
    from tidemark.runtime.changelog import claim, writer

    write = claim.write_commit

    def writing(store: Any, commit: Any, summary: Any) -> Any:
        said = [BEGIN if one.whole is None else WHOLE for one in commit.generations]
        for what in said:
            reach(failpoint(RUNTIME, "before", what))
        result = write(store, commit, summary)
        for what in said:
            reach(failpoint(RUNTIME, "after", what))
        return result

    writer.write_commit = writing  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
