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
        "Fix the named lines. 'tidemark init' writes a file that shows every entry.",
    ),
    ErrorCode(
        "TM-CFG-003",
        "A secret of the capture file cannot be read",
        Policy.MANUAL,
        "Set the named environment variable, or make the named file readable, for the process that runs tidemark.",
    ),
    ErrorCode(
        "TM-CFG-004",
        "A table of the capture file cannot be captured",
        Policy.MANUAL,
        "Compare the entry with the output of 'tidemark discover FILE'. Names are case-sensitive; a dot joins schema "
        "and table.",
    ),
    ErrorCode(
        "TM-CFG-005",
        "An option of a table does not fit the table",
        Policy.MANUAL,
        "Name columns that the table has, and keep the key's columns.",
    ),
    ErrorCode(
        "TM-CFG-006",
        "A file already exists",
        Policy.MANUAL,
        "Give another path, or move the file away.",
    ),
    ErrorCode(
        "TM-CFG-007",
        "The change log has no such table or place",
        Policy.MANUAL,
        "'tidemark status LOG' lists the tables of a log. --from takes an offset, a time in ISO 8601, earliest or "
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
        "Something outside ended the connector's process, often a lack of memory. Nothing committed is lost.",
    ),
    ErrorCode(
        "TM-RUN-004",
        "The connector ended too early",
        Policy.RETRY,
        "It exited without an error before its output was complete. What was not committed is read again.",
    ),
    ErrorCode(
        "TM-RUN-005",
        "The connector broke the protocol",
        Policy.MANUAL,
        "Report it to the author of the connector. None of its output since the last commit was kept.",
    ),
    ErrorCode(
        "TM-RUN-006",
        "The connector speaks another version of the protocol",
        Policy.MANUAL,
        "Use a connector of protocol version 3032023 with the JSON codec.",
    ),
    ErrorCode(
        "TM-RUN-007",
        "No Docker engine is available",
        Policy.MANUAL,
        "Start Docker, or set DOCKER_HOST, and check that 'docker info' works for this user. Or run the connector with "
        "connector.command instead of connector.image.",
    ),
    ErrorCode(
        "TM-RUN-008",
        "The connector's image cannot be used",
        Policy.MANUAL,
        "Check that 'docker pull' finds the image. 'make images' builds this project's images.",
    ),
    ErrorCode(
        "TM-RUN-009",
        "The Docker engine failed",
        Policy.RETRY,
        "Look at the engine's own log. 'docker info' says whether it is running.",
    ),
    ErrorCode(
        "TM-RUN-010",
        "The connector fails repeatedly",
        Policy.MANUAL,
        "Every attempt ended without a commit. Fix the cause of the last failure, then run the capture again: it "
        "resumes from the last commit.",
    ),
    ErrorCode(
        "TM-RUN-011",
        "The connector does not answer",
        Policy.RETRY,
        "It took longer than the limit for this request. Check that the source is reachable and not overloaded.",
    ),
    ErrorCode(
        "TM-RUN-012",
        "A part of tidemark is not installed",
        Policy.MANUAL,
        "Install the extra that the message names.",
    ),
    ErrorCode(
        "TM-RUN-013",
        "The operating system refused an operation",
        Policy.MANUAL,
        "Check the space, the permissions and the device of the named file. Nothing committed is lost.",
    ),
    ErrorCode(
        "TM-RUN-014",
        "An unexpected error",
        Policy.MANUAL,
        "This is a defect of tidemark. Run the same command with LOG_LEVEL=debug to see where it happened, and report "
        "it. Nothing committed is lost.",
    ),
    ErrorCode(
        "TM-RUN-016",
        "The connector accepts no commands while it runs",
        Policy.MANUAL,
        "Edit the capture file instead: 'backfill: 1' under a table reads it again, and a table without an entry is not "
        "captured. The command waits until a connector accepts it.",
    ),
    ErrorCode(
        "TM-RUN-017",
        "The connector does not exit when asked to",
        Policy.RETRY,
        "It is stopped, and opened again from the last commit. A connector must end its session when its stdin ends.",
    ),
    ErrorCode(
        "TM-RUN-018",
        "The connector has no plan",
        Policy.MANUAL,
        "A plan needs one of this project's connectors. 'tidemark discover FILE' lists the tables of any connector.",
    ),
    ErrorCode(
        "TM-RUN-019",
        "The connector has stopped sending output",
        Policy.RETRY,
        "It hangs: it is stopped, and opened again from the last commit. If it is only slow, raise connector.silence in "
        "the capture file; 0s turns this off.",
    ),
)
