"""All documents that are generated, at once: ``make check`` asks for them.

python -m tests.house.generated          write them
python -m tests.house.generated --check  write nothing; exit 1 if one is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.end_to_end.alterations import page as alterations
from tests.house import (
    api_page,
    connector_specs,
    metrics_page,
    performance_page,
    protocol_documents,
    states_picture,
)


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks all. Returns the exit status."""
    mains: tuple[Callable[[list[str] | None], int], ...] = (
        *(protocol_documents.main, api_page.main, states_picture.main),
        *(metrics_page.main, connector_specs.main, alterations.main, performance_page.main),
    )
    return max([write(arguments) for write in mains])


if __name__ == "__main__":
    sys.exit(main())
