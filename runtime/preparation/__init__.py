"""From a capture file to a capture that can be opened: secrets, the options of tables, and which tables those are."""
