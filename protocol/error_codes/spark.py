"""Codes of Spark: the source, and the tables kept from a log."""

from __future__ import annotations

from protocol.error_codes.model import ErrorCode, Policy

CODES = (
    ErrorCode(
        "TM-SPK-001",
        "Spark needs Java 17 or later",
        Policy.MANUAL,
        "Install a Java 17 or 21 runtime (openjdk-17-jre-headless), and let JAVA_HOME or PATH point to it.",
    ),
    ErrorCode(
        "TM-SPK-002",
        "PySpark or deltalake is missing, or its version is unsupported",
        Policy.MANUAL,
        "Install tidemark[spark], which requires pyspark 4.0 to 4.3 and deltalake 1.6.6 or later.",
    ),
    ErrorCode(
        "TM-SPK-003",
        "An option of the Spark source is missing or wrong",
        Policy.MANUAL,
        "Options: path, table, startingOffset (earliest, latest, an offset, a time), endingOffset, "
        "maxEventsPerBatch, maxBytesPerBatch, minPartitions; or state (events, current), asOf, warehouse.",
    ),
    ErrorCode(
        "TM-SPK-004",
        "The change log has no such table",
        Policy.MANUAL,
        "Write the table as schema.table, with the source's case. A table appears in the log with its first event: "
        "tidemark status lists the tables.",
    ),
    ErrorCode(
        "TM-SPK-005",
        "A column changed to a type that its values cannot be cast to",
        Policy.MANUAL,
        "For a read, give the reader a schema with a type that both have, or read the two parts by offsets. For a kept "
        "table, move its directory away: it is rebuilt with the newest schema.",
    ),
    ErrorCode(
        "TM-SPK-006",
        "An offset is not in the change log",
        Policy.MANUAL,
        "The log was replaced, or is not the one that this query read before. Give the right path, or start with a new "
        "checkpoint.",
    ),
    ErrorCode(
        "TM-SPK-007",
        "A table without a key has no current state",
        Policy.MANUAL,
        "Keep its history instead, or give it a key: a primary key in the source, or key in its resource config.",
    ),
    # TM-SPK-008 is retired: the capture file has only kinds and formats of tables that there are.
    ErrorCode(
        "TM-SPK-009",
        "The directory holds a table that was not kept from this change log",
        Policy.MANUAL,
        "Choose another warehouse, or move the named directory away.",
    ),
    ErrorCode(
        "TM-SPK-010",
        "Another process writes the same table",
        Policy.RETRY,
        "Run one materialize per warehouse at a time. Nothing was lost or applied twice.",
    ),
    ErrorCode(
        "TM-SPK-011",
        "A table format cannot hold these column names",
        Policy.MANUAL,
        "Rename one of the columns in the source, or exclude it from the capture.",
    ),
    ErrorCode(
        "TM-SPK-012",
        "The key of a table changed",
        Policy.MANUAL,
        "The old key identifies the old events. Start a new change log for the table, and backfill it with the new key.",
    ),
    ErrorCode(
        "TM-SPK-013",
        "Spark failed",
        Policy.RETRY,
        "The message holds the first line of Spark's error, or the exception that Python raised on an executor; Spark's "
        "log says more. What was applied stays applied, and the next run resumes from there.",
    ),
    ErrorCode(
        "TM-SPK-015",
        "A Delta table cannot be read or written",
        Policy.MANUAL,
        "Check the named directory: its space, permissions and files. If the table is damaged, move the directory away: "
        "the next run rebuilds it from the log.",
    ),
    ErrorCode(
        "TM-SPK-016",
        "Another program changed the rows of a kept table",
        Policy.MANUAL,
        "Run tidemark materialize FILE --rebuild TABLE to rebuild the table from the log. Or undo the change with a "
        "Delta RESTORE to the version before it. Kept tables are for reading; compacting them is allowed.",
    ),
    ErrorCode(
        "TM-SPK-017",
        "A kept table is a copy of another one",
        Policy.MANUAL,
        "Move the named directory away, or run tidemark materialize FILE --rebuild TABLE.",
    ),
    ErrorCode(
        "TM-SPK-018",
        "A kept table uses a Delta feature that tidemark does not write",
        Policy.MANUAL,
        "Give the Spark session Delta Lake for Spark, which then writes the table (see docs/spark.md). Or let the "
        "program that added deletion vectors purge them (REORG TABLE … APPLY (PURGE)) and turn the feature off. Or run "
        "tidemark materialize FILE --rebuild TABLE.",
    ),
    ErrorCode(
        "TM-SPK-019",
        "The columns of a table changed under a query",
        Policy.MANUAL,
        "Start the query again with its checkpoint: it resumes with the newest schema. To choose the columns yourself, "
        "give the reader a schema (.schema(…)): it then reads those columns, whatever changes.",
    ),
    ErrorCode(
        "TM-SPK-020",
        "An executor lacks what the work needs",
        Policy.MANUAL,
        "Every worker needs the driver's version of Python, with pyarrow 18 or later and tidemark. Install them there, "
        "and let PYSPARK_PYTHON or spark.pyspark.python point to that Python. tidemark itself may come with --py-files.",
    ),
    ErrorCode(
        "TM-SPK-021",
        "The active Spark session differs from the requested one",
        Policy.MANUAL,
        "Stop that session first, or leave out the master and the setting to run the job on it as it is.",
    ),
    ErrorCode(
        "TM-SPK-022",
        "The Spark session has no engine that merges into tables",
        Policy.MANUAL,
        "Give the session Delta Lake for its version of Spark with the settings spark.jars.packages, "
        "spark.sql.extensions and spark.sql.catalog.spark_catalog (see docs/spark.md). Or leave --way sql out: the "
        "other ways need no engine.",
    ),
)
