"""The capture file's ``spark`` entry: which tables Spark keeps of the captured ones, where, and how."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from tidemark.protocol.capture_file.metrics_entry import MetricsEntry
from tidemark.protocol.capture_file.values import STRICT, Seconds, StoredPath

Mode = Literal["current", "history"]
"""Tables that Spark keeps of a captured table."""

OnSchemaChange = Literal["evolve", "version", "stop"]
"""What happens to a kept table whose columns or key change at the source."""

Show = Literal["whole", "at_once"]
"""When the rows of a table that is read again replace those of before."""


class KindEntry(BaseModel):
    """Options of one kept table; those of ``spark`` where it has none."""

    model_config = STRICT

    on_schema_change: OnSchemaChange | None = None
    show: Show | None = None


def _kinds(value: object) -> object:
    """One kind, a list of them, or a mapping to their options."""
    listed = [value] if isinstance(value, str) else value
    if isinstance(listed, list):
        return dict.fromkeys(listed, KindEntry()) if all(isinstance(kind, str) for kind in listed) else value
    if isinstance(listed, dict):
        return {kind: {} if options is None else options for kind, options in listed.items()}
    return value


def _setting(value: object) -> object:
    """A setting as Spark writes it: YAML reads ``true`` as a boolean and ``4`` as a number."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    return value


def _spark_name(name: str) -> str:
    if not name.startswith("spark.") or not name.removeprefix("spark.").strip():
        raise ValueError("the name of a Spark setting must begin with spark.")
    return name


class FoldEntry(BaseModel):
    """``fold``: when new events of the log are applied to a kept table.

    Attributes:
        share: The largest share of the time for the folds of one table.
        max_staleness: Seconds after which a table is folded in any case; None for no limit.
    """

    model_config = STRICT

    share: Annotated[float, Field(gt=0, le=1)] = 0.25
    max_staleness: Annotated[Seconds, Field(gt=0, allow_inf_nan=False)] | None = None


class SparkEntry(BaseModel):
    """``spark``.

    Attributes:
        warehouse: The directory under which the tables lie.
        master: Spark's master, such as ``local[4]``, ``spark://host:7077`` or ``sc://host``.
        conf: Spark's settings for a session that the job creates.
        trigger: Seconds between two checks of the log.
        on_schema_change: Of tables that do not say it themselves.
        show: Likewise.
        metrics: Where the job serves its metrics; None for nowhere.
        consumer: The name under which the log knows the job; None for one that is made from the warehouse.
        tables: Which tables to keep of which captured tables, ``*`` standing for all others.
    """

    model_config = STRICT

    format: Literal["delta"] = "delta"
    warehouse: StoredPath
    master: Annotated[str, Field(min_length=1)] | None = None
    conf: dict[Annotated[str, AfterValidator(_spark_name)], Annotated[str, BeforeValidator(_setting)]] = {}
    trigger: Annotated[Seconds, Field(gt=0, le=86_400)] = 1.0
    fold: FoldEntry = FoldEntry()
    on_schema_change: OnSchemaChange = "evolve"
    show: Show = "whole"
    metrics: MetricsEntry | None = None
    consumer: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    tables: dict[str, Annotated[dict[Mode, KindEntry], BeforeValidator(_kinds), Field(min_length=1)]] = {
        "*": {"current": KindEntry()}
    }
