"""Certificates for tests: an authority, and what it signs. Made by the command ``openssl``."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidemark.testing.missing import lacks


@dataclass(frozen=True)
class Certificate:
    """Two files in PEM form."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a folder.

    Attributes:
        certificate: The file that those who trust it need.
    """

    def __init__(self, folder: Path, name: str) -> None:
        if shutil.which("openssl") is None:
            pytest.skip(lacks("no openssl, which makes certificates", "apt-get install openssl"))
        self._folder = folder
        self._name = name
        self.certificate = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        self._openssl(
            "req", "-x509", *self._new_key(self._key), "-days", "2", "-out", self.certificate, *_subject(name)
        )

    def sign(self, name: str) -> Certificate:
        """A certificate for a host or a user of this name."""
        made = Certificate(self._folder / f"{self._name}-{name}.crt", self._folder / f"{self._name}-{name}.key")
        request = made.certificate.with_suffix(".csr")
        self._openssl("req", *self._new_key(made.key), "-out", request, *_subject(name))
        names = made.certificate.with_suffix(".names")
        names.write_text(f"subjectAltName=DNS:{name}\n")
        signed_by = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-extfile", names)
        self._openssl("x509", "-req", "-in", request, *signed_by, "-days", "2", "-out", made.certificate)
        made.key.chmod(0o600)
        return made

    def _new_key(self, file: Path) -> tuple[str | Path, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", file)

    def _openssl(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)


def _subject(name: str) -> tuple[str, str]:
    return "-subj", f"/CN={name}"
