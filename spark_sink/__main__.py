"""``tidemark materialize``, by ``python -m tidemark.spark_sink FILE …`` or by ``spark-submit``.

::

    spark-submit … tidemark/spark_sink/__main__.py FILE …
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # spark-submit runs this file by its path: what is beside it would then be found as modules of their own, and this
    # package only where it is installed. What is linked into tidemark/ in a checkout counts as being there.
    sys.path[0] = str(Path(__file__).absolute().parent.parent.parent)

import argparse
from collections.abc import Sequence
from typing import NoReturn

from tidemark.protocol.errors import TidemarkError
from tidemark.spark_sink.command import INTERRUPTED, Arguments, exit_status, run, setting


def main(given: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line; errors are shown on stderr and end in their exit status."""
    parsed = vars(_parser().parse_args(given))
    try:
        status = run(Arguments(**{**parsed, "conf": dict(parsed["conf"])}))
    except TidemarkError as error:
        sys.stderr.write(error.explanation)
        status = exit_status(error)
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tidemark.spark_sink",
        description="Keep Spark tables up to date from the change log, as the capture file's spark entry says.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the capture file (YAML)")
    parser.add_argument("--available-now", action="store_true", help="apply what the log holds now, then exit")
    parser.add_argument(
        "--master", metavar="URL", help="Spark's master, such as local[4], spark://host:7077, sc://host"
    )
    parser.add_argument(
        "--conf", metavar="KEY=VALUE", type=_setting, action="append", default=[], help="a Spark setting"
    )
    parser.add_argument(
        "--table", metavar="PATTERN", dest="tables", action="append", default=[], help="update only these tables"
    )
    parser.add_argument("--way", choices=["task", "rewrite", "sql"], help="apply every part this way")
    parser.add_argument(
        "--rebuild", metavar="TABLE", action="append", default=[], help="rebuild the table from the log"
    )
    parser.add_argument("--retry", metavar="TABLE", action="append", default=[], help="retry a table that is set aside")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    return parser


def _setting(pair: str) -> tuple[str, str]:
    try:
        return setting(pair)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    main()
