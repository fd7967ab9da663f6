"""Codes of the capture file, the command line, and the connectors that the runtime runs."""

from __future__ import annotations

from protocol.error_codes.model import ErrorCode, Policy

CODES = (
    ErrorCode(
        "TM-CFG-001",
        "The capture file cannot be read",
        Policy.MANUAL,
        "Give the path of a YAML file; 'tidemark init' writes one to start from.",
    ),
    ErrorCode(
        "TM-CFG-002",
        "The capture file has a mistake",
        Policy.MANUAL,
        "Mend the named lines; 'tidemark init' writes a file that shows every entry.",
    ),
    ErrorCode(
        "TM-CFG-003",
        "A secret of the capture file cannot be had",
        Policy.MANUAL,
        "Set the named environment variable, or make the named file readable, for the process that runs tidemark.",
    ),
    ErrorCode(
        "TM-CFG-004",
        "A table of the capture file cannot be captured",
        Policy.MANUAL,
        "Compare the entry with what 'tidemark discover FILE' lists: names are case-true, schema and table joined by "
        "a dot.",
    ),
    ErrorCode(
        "TM-CFG-005",
        "An option of a table does not fit the table",
        Policy.MANUAL,
        "Name columns that the table has, and keep the key's columns.",
    ),
    ErrorCode(
        "TM-CFG-006",
        "A file is already there",
        Policy.MANUAL,
        "Give another path, or move the file away.",
    ),
    ErrorCode(
        "TM-CFG-007",
        "The change log has no such table or place",
        Policy.MANUAL,
        "'tidemark status LOG' lists the tables of a log; --from takes an offset, a time in ISO 8601, earliest or "
        "latest.",
    ),
    ErrorCode(
        "TM-RUN-001",
        "The connector cannot be started",
        Policy.MANUAL,
        "Check connector.command in the capture file: the program must exist and be executable.",
    ),
    ErrorCode(
        "TM-RUN-002",
        "The connector failed",
        Policy.RETRY,
        "Read the connector's log lines above; LOG_LEVEL=debug shows more of them.",
    ),
    ErrorCode(
        "TM-RUN-003",
        "The connector was killed",
        Policy.RETRY,
        "Something ended the connector's process from outside: often a lack of memory. Nothing committed is lost.",
    ),
    ErrorCode(
        "TM-RUN-004",
        "The connector ended too early",
        Policy.RETRY,
        "It exited without an error before it had finished what it was saying. What was not committed is read again.",
    ),
    ErrorCode(
        "TM-RUN-005",
        "The connector broke the protocol",
        Policy.MANUAL,
        "Report it to whoever wrote the connector. Nothing of what it said since the last commit was kept.",
    ),
    ErrorCode(
        "TM-RUN-006",
        "The connector speaks another version of the protocol",
        Policy.MANUAL,
        "Use a connector of protocol version 3032023 with the JSON codec.",
    ),
    ErrorCode(
        "TM-RUN-007",
        "There is no Docker engine",
        Policy.MANUAL,
        "Start Docker, or set DOCKER_HOST, and see that 'docker info' works for this user; or run the connector with "
        "connector.command instead of connector.image.",
    ),
    ErrorCode(
        "TM-RUN-008",
        "The connector's image cannot be used",
        Policy.MANUAL,
        "See that 'docker pull' finds the image; 'make images' builds the ones of this project.",
    ),
    ErrorCode(
        "TM-RUN-009",
        "The Docker engine failed",
        Policy.RETRY,
        "Look at the engine's own log; 'docker info' says whether it is up.",
    ),
    ErrorCode(
        "TM-RUN-010",
        "The connector fails again and again",
        Policy.MANUAL,
        "Every attempt ended without a commit. Mend what the last failure says, then run the capture again: it goes "
        "on from the last commit.",
    ),
    ErrorCode(
        "TM-RUN-011",
        "The connector does not answer",
        Policy.RETRY,
        "It took longer than the limit for this request. See whether the source is reachable and not overloaded.",
    ),
    ErrorCode(
        "TM-RUN-012",
        "A part of tidemark is not installed",
        Policy.MANUAL,
        "Install the extra that the message names.",
    ),
    ErrorCode(
        "TM-RUN-013",
        "The operating system refused something",
        Policy.MANUAL,
        "See to the space, the permissions or the device of the named file. Nothing committed is lost.",
    ),
    ErrorCode(
        "TM-RUN-014",
        "An unforeseen error",
        Policy.MANUAL,
        "This is a defect of tidemark. Run the same with LOG_LEVEL=debug to see where it happened, and report it. "
        "Nothing committed is lost.",
    ),
    ErrorCode(
        "TM-RUN-016",
        "The connector takes no orders while it runs",
        Policy.MANUAL,
        "Edit the capture file instead: 'backfill: 1' under a table has it read again, and a table that is left out "
        "is not captured. The order stays until a connector takes it.",
    ),
    ErrorCode(
        "TM-RUN-017",
        "The connector does not end when it is asked to",
        Policy.RETRY,
        "It is ended, and opened again from the last commit. A connector ends its session when its stdin ends.",
    ),
    ErrorCode(
        "TM-RUN-018",
        "The connector makes no plan",
        Policy.MANUAL,
        "A plan needs a connector of this project. 'tidemark discover FILE' lists the tables of any.",
    ),
    ErrorCode(
        "TM-RUN-019",
        "The connector says nothing any more",
        Policy.RETRY,
        "It hangs: it is ended, and opened again from the last commit. Where it only takes its time, raise "
        "connector.silence in the capture file; 0s turns this off.",
    ),
)
