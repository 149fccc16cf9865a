"""How a client shows who it is where others could listen."""

from __future__ import annotations

import os
from typing import NamedTuple

from habemus.client.address import ClusterAddress, secret_in


class Credentials(NamedTuple):
    secret: bytes | None = None
    authority: str = ""  # the file of the certificate that signs the others
    certificate: str = ""
    key: str = ""

    @classmethod
    def given(
        cls,
        secret: bytes | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        secret_file: str | None = None,
    ) -> Credentials:
        """Return what is given; what is not is taken from the environment."""
        said = os.environ.get
        file = secret_file or said("HABEMUS_SECRET_FILE", "")
        if secret is None and file:
            secret = secret_in(file)
        return cls(
            None if secret is None else secret.strip(),  # files and editors end it with a newline
            ca or said("HABEMUS_CA", ""),
            certificate or said("HABEMUS_CERTIFICATE", ""),
            key or said("HABEMUS_KEY", ""),
        )

    @classmethod
    def of_files(cls, **papers: str | None) -> Credentials:
        """Return what is in the files that the options of a command name: ca, certificate, key,
        secret_file.
        """
        return cls.given(
            None,
            papers.get("ca"),
            papers.get("certificate"),
            papers.get("key"),
            papers.get("secret_file"),
        )

    def at(self, where: ClusterAddress) -> Credentials:
        """Add what the cluster's own file says of them, where nothing else does."""
        return self._replace(
            secret=self.secret or where.secret, authority=self.authority or where.authority
        )
