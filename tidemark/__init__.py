"""Change data capture: from a database's tables and their changes into a log, and from the log into Spark tables.

This is the public API. All other modules may change in any release.

::

    from tidemark import ChangeLog, materialize, read_changes, read_table, register

    register(spark)
    spark.readStream.format("tidemark").option("path", "shop.log").option("table", "public.orders").load()
    read_changes(spark, "shop.log", "public.orders")
    read_table(spark, "shop.yaml", "public.orders")
    materialize("shop.yaml")
    ChangeLog("shop.log").end()

Importing it imports nothing else: each name is imported when it is first asked for. Where its extra is not installed,
that raises ``MissingExtraError``, which is also an ``ImportError``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemark.protocol.actions import Action
    from tidemark.protocol.changelog.reader import ChangeLog
    from tidemark.protocol.errors import (
        ChangeLogError,
        ConnectorError,
        ProtocolError,
        SourceError,
        SparkError,
        TidemarkError,
        UsageError,
    )
    from tidemark.protocol.extras import MissingExtraError
    from tidemark.protocol.messages import (
        Acknowledge,
        Applied,
        Apply,
        BackfillBegin,
        BackfillComplete,
        Binding,
        CaptureSpec,
        Checkpoint,
        Collection,
        ConnectorState,
        Control,
        Discover,
        Discovered,
        DiscoveredBinding,
        Inference,
        JournalTemplate,
        KeyRange,
        Open,
        Opened,
        Projection,
        ShardTemplate,
        SourcedSchema,
        Spec,
        SpecResponse,
        Validate,
        Validated,
        ValidatedBinding,
        VerifyBegin,
        VerifyChunk,
        VerifyEnd,
    )
    from tidemark.spark_sink.data_source import register
    from tidemark.spark_sink.job import materialize
    from tidemark.spark_sink.live.read_table import read_table, read_tables
    from tidemark.spark_sink.source.native_scan import read_changes

__all__ = [
    "Acknowledge",
    "Action",
    "Applied",
    "Apply",
    "BackfillBegin",
    "BackfillComplete",
    "Binding",
    "CaptureSpec",
    "ChangeLog",
    "ChangeLogError",
    "Checkpoint",
    "Collection",
    "ConnectorError",
    "ConnectorState",
    "Control",
    "Discover",
    "Discovered",
    "DiscoveredBinding",
    "Inference",
    "JournalTemplate",
    "KeyRange",
    "MissingExtraError",
    "Open",
    "Opened",
    "Projection",
    "ProtocolError",
    "ShardTemplate",
    "SourceError",
    "SourcedSchema",
    "SparkError",
    "Spec",
    "SpecResponse",
    "TidemarkError",
    "UsageError",
    "Validate",
    "Validated",
    "ValidatedBinding",
    "VerifyBegin",
    "VerifyChunk",
    "VerifyEnd",
    "materialize",
    "read_changes",
    "read_table",
    "read_tables",
    "register",
]

_HOMES = {
    "Action": "tidemark.protocol.actions",
    "ChangeLog": "tidemark.protocol.changelog.reader",
    "MissingExtraError": "tidemark.protocol.extras",
    "materialize": "tidemark.spark_sink.job",
    "read_changes": "tidemark.spark_sink.source.native_scan",
    "read_table": "tidemark.spark_sink.live.read_table",
    "read_tables": "tidemark.spark_sink.live.read_table",
    "register": "tidemark.spark_sink.data_source",
}
"""Where names are. The other errors, and the protocol's messages, are in one module each."""


if not TYPE_CHECKING:  # A type checker has the imports above, and tells of any other name.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        others = "tidemark.protocol.errors" if name.endswith("Error") else "tidemark.protocol.messages"
        try:
            return getattr(import_module(_HOMES.get(name, others)), name)
        except ModuleNotFoundError as error:
            from tidemark.protocol.extras import missing_extra

            raise missing_extra(error) or error from None


def __dir__() -> list[str]:
    return __all__
