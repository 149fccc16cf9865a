"""TLS between nodes: each end shows a certificate of the cluster's authority for its node."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, NamedTuple

from habemus.runtimes.live.certificate_dates import expiry_of
from habemus.runtimes.live.log_limits import RateLimitedLog


class TlsContexts(NamedTuple):
    """TLS contexts of the two sides of a connection, and of metrics and probes."""

    answering: ssl.SSLContext
    dialling: ssl.SSLContext
    monitoring: ssl.SSLContext  # the other end may show a certificate, or none
    expires: float  # end of the certificate, in seconds of the epoch


def contexts(authority: Path, certificate: Path, key: Path) -> TlsContexts:
    """Return contexts from PEM files; raise `ValueError` naming a file that is not usable."""
    made = []
    for purpose, verification in (
        (ssl.Purpose.CLIENT_AUTH, ssl.CERT_REQUIRED),
        (ssl.Purpose.SERVER_AUTH, ssl.CERT_REQUIRED),
        (ssl.Purpose.CLIENT_AUTH, ssl.CERT_OPTIONAL),
    ):
        try:
            context = ssl.create_default_context(purpose, cafile=str(authority))
        except (OSError, ssl.SSLError) as reason:
            raise ValueError(f"certificate authority {authority}: {reason}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = verification
        try:
            context.load_cert_chain(str(certificate), str(key))
        except (OSError, ssl.SSLError) as reason:
            raise ValueError(f"certificate {certificate} with key {key}: {reason}") from None
        made.append(context)
    answering, dialling, monitoring = made
    return TlsContexts(answering, dialling, monitoring, expiry_of(certificate).timestamp())


def names_in(certificate: dict[str, Any] | None) -> frozenset[str]:
    """Return the host names in a certificate."""
    return frozenset(
        name for kind, name in (certificate or {}).get("subjectAltName", ()) if kind == "DNS"
    )


def log_refusals(context: ssl.SSLContext, limited_log: RateLimitedLog) -> None:
    """Log every failed handshake of this context, which event loops do not do."""

    class Logged(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as reason:
                limited_log.warning(
                    "refused a connection: TLS handshake failed: %s", reason.reason or reason
                )
                raise

    context.sslobject_class = Logged
