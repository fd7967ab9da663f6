"""Codes of Spark: the source, and the tables kept from a log."""

from __future__ import annotations

from protocol.error_codes.model import listed

# TM-SPK-008 is retired: the capture file has only kinds and formats of tables that there are.
CODES = listed("""
TM-SPK-001 manual: Spark needs Java 17 or later
    Install a Java 17 or 21 runtime (openjdk-17-jre-headless), and let JAVA_HOME or PATH point to it.

TM-SPK-002 manual: PySpark or deltalake is missing, or its version is unsupported
    Install tidemark[spark], which requires pyspark 4.0 to 4.3 and deltalake 1.6.6 or later.

TM-SPK-003 manual: An option of the Spark source is missing or wrong
    Options: path, table, startingOffset (earliest, latest, an offset, a time), endingOffset, maxEventsPerBatch,
    maxBytesPerBatch, minPartitions; or state (events, current), asOf, warehouse.

TM-SPK-004 manual: The change log has no such table
    Write the table as schema.table, with the source's case. A table appears in the log with its first event: tidemark
    status lists the tables.

TM-SPK-005 manual: A column changed to a type that its values cannot be cast to
    For a read, give the reader a schema with a type that both have, or read the two parts by offsets. For a kept table,
    move its directory away: it is rebuilt with the newest schema.

TM-SPK-006 manual: An offset is not in the change log
    The log was replaced, or is not the one that this query read before. Give the right path, or start with a new
    checkpoint.

TM-SPK-007 manual: A table without a key has no current state
    Keep its history instead, or give it a key: a primary key in the source, or key in its resource config.

TM-SPK-009 manual: The directory holds a table that was not kept from this change log
    Choose another warehouse, or move the named directory away.

TM-SPK-010 retry: Another process writes the same table
    Run one materialize per warehouse at a time. Nothing was lost or applied twice.

TM-SPK-011 manual: A table format cannot hold these column names
    Rename one of the columns in the source, or exclude it from the capture.

TM-SPK-012 manual: The key of a table changed
    The old key identifies the old events. Start a new change log for the table, and backfill it with the new key.

TM-SPK-013 retry: Spark failed
    The message holds the first line of Spark's error, or the exception that Python raised on an executor; Spark's log
    says more. What was applied stays applied, and the next run resumes from there.

TM-SPK-015 manual: A Delta table cannot be read or written
    Check the named directory: its space, permissions and files. If the table is damaged, move the directory away: the
    next run rebuilds it from the log.

TM-SPK-016 manual: Another program changed the rows of a kept table
    Run tidemark materialize FILE --rebuild TABLE to rebuild the table from the log. Or undo the change with a Delta
    RESTORE to the version before it. Kept tables are for reading; compacting them is allowed.

TM-SPK-017 manual: A kept table is a copy of another one
    Move the named directory away, or run tidemark materialize FILE --rebuild TABLE.

TM-SPK-018 manual: A kept table uses a Delta feature that tidemark does not write
    Give the Spark session Delta Lake for Spark, which then writes the table (see docs/spark.md). Or let the program
    that added deletion vectors purge them (REORG TABLE … APPLY (PURGE)) and turn the feature off. Or run tidemark
    materialize FILE --rebuild TABLE.

TM-SPK-019 manual: The columns of a table changed under a query
    Start the query again with its checkpoint: it resumes with the newest schema. To choose the columns yourself, give
    the reader a schema (.schema(…)): it then reads those columns, whatever changes.

TM-SPK-020 manual: An executor lacks what the work needs
    Every worker needs the driver's version of Python, with pyarrow 18 or later and tidemark. Install them there, and
    let PYSPARK_PYTHON or spark.pyspark.python point to that Python. tidemark itself may come with --py-files.

TM-SPK-021 manual: The active Spark session differs from the requested one
    Stop that session first, or leave out the master and the setting to run the job on it as it is.

TM-SPK-022 manual: The Spark session has no engine that merges into tables
    Give the session Delta Lake for its version of Spark with the settings spark.jars.packages, spark.sql.extensions and
    spark.sql.catalog.spark_catalog (see docs/spark.md). Or leave --way sql out: the other ways need no engine.
""")
