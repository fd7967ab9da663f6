"""The files of a change log that is written: made, synced, replaced, and swept when their writer is dead."""
