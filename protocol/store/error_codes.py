"""Codes of stores."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual

CODES = (
    manual(
        "TM-CFG-009",
        "The place of an object store is wrong",
        "Write s3://BUCKET/PATH. What the environment does not say is in the entry store: endpoint, region, keys, and "
        "allow_http for an address that begins with http://.",
    ),
    manual(
        "TM-CFG-014",
        "A profile of AWS gives no keys",
        "Profiles are looked for in ~/.aws/config and ~/.aws/credentials, or where AWS_CONFIG_FILE and "
        "AWS_SHARED_CREDENTIALS_FILE say, by each process that opens the store. One has both keys, or a "
        "credential_process. For a profile P that signs in or takes a role, name another one that has: "
        "credential_process = aws configure export-credentials --profile P --format process.",
    ),
)
