"""The subcommands of ``tidemark``, a file per group."""
