"""Credentials of a client: the cluster's secret, and certificates for TLS."""

from __future__ import annotations

import os
from typing import NamedTuple

from habemus.client.address import ClusterAddress
from habemus.runtimes.live.cluster_file import secret_in


class Credentials(NamedTuple):
    """The secret and the certificate files that a client uses."""

    secret: bytes | None = None
    authority: str = ""  # the file of the certificate of the authority
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
        """Return the given credentials; the environment has the defaults."""
        default = os.environ.get
        file = secret_file or default("HABEMUS_SECRET_FILE", "")
        if secret is None and file:
            secret = secret_in(file)
        return cls(
            None if secret is None else secret.strip(),  # files and editors end it with a newline
            ca or default("HABEMUS_CA", ""),
            certificate or default("HABEMUS_CERTIFICATE", ""),
            key or default("HABEMUS_KEY", ""),
        )

    @classmethod
    def of_files(cls, **credential_files: str | None) -> Credentials:
        """Return the credentials in files: ca, certificate, key, secret_file."""
        return cls.given(
            None,
            credential_files.get("ca"),
            credential_files.get("certificate"),
            credential_files.get("key"),
            credential_files.get("secret_file"),
        )

    def at(self, cluster: ClusterAddress) -> Credentials:
        """Add the credentials of the cluster's own files as defaults."""
        return self._replace(
            secret=self.secret or cluster.secret, authority=self.authority or cluster.authority
        )
