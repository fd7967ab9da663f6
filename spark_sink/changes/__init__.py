"""From events to rows: one net change for each key, merged into what a table holds. Arrow only, no Spark."""
