"""The whole source half: from rows in a database to committed segments, and what a start and a commit cost."""
