"""TlsFiles between nodes: both ends show one, signed by the cluster's authority, with the
node's own name in it.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, NamedTuple

from habemus.runtimes.live.log_limits import RateLimitedLog


class TlsContexts(NamedTuple):
    """How to answer and how to dial."""

    answering: ssl.SSLContext
    dialling: ssl.SSLContext


def contexts(authority: Path, certificate: Path, key: Path) -> TlsContexts:
    """From files in PEM form; a file that cannot be used is a ValueError that names it."""
    made = []
    for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
        try:
            context = ssl.create_default_context(purpose, cafile=str(authority))
        except (OSError, ssl.SSLError) as reason:
            raise ValueError(f"{authority}: {reason}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(str(certificate), str(key))
        except (OSError, ssl.SSLError) as reason:
            raise ValueError(f"{certificate} with the key {key}: {reason}") from None
        made.append(context)
    return TlsContexts(*made)


def names_in(certificate: dict[str, Any] | None) -> frozenset[str]:
    """The host names that a certificate was made for."""
    return frozenset(
        name for kind, name in (certificate or {}).get("subjectAltName", ()) if kind == "DNS"
    )


def log_refusals(context: ssl.SSLContext, limited_log: RateLimitedLog) -> None:
    """Have every handshake that fails in this context logged, which event loops do not do."""

    class Logged(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as reason:
                limited_log.warning(
                    "refused somebody: TLS handshake failed: %s", reason.reason or reason
                )
                raise

    context.sslobject_class = Logged
