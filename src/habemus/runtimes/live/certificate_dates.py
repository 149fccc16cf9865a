"""The end of a certificate, read from its PEM file without further packages.

A certificate is a sequence, and its first element, what is signed, is one too: an optional version
in a tag of its own, the serial number, the algorithm, the issuer, and then the validity, a sequence
of two times (RFC 5280, 4.1).
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from pathlib import Path

_SEQUENCE, _VERSION, _UTC_TIME, _TIME = 0x30, 0xA0, 0x17, 0x18
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def expiry_of(path: Path) -> datetime:
    """Return the end of the first certificate in a file; raise `ValueError` if it has none."""
    found = _BLOCK.search(path.read_text(encoding="ascii", errors="replace"))
    if found is None:
        raise ValueError(f"{path} has no certificate")
    try:
        return _not_after(ssl.PEM_cert_to_DER_cert(found[0] + "\n"))
    except (ValueError, IndexError) as reason:
        raise ValueError(f"{path} has a malformed certificate: {reason}") from None


def _not_after(certificate: bytes) -> datetime:
    signed = _content(_content(certificate, _SEQUENCE), _SEQUENCE)
    if signed[0] == _VERSION:
        _, signed = _split(signed)
    for _ in ("serial number", "algorithm", "issuer"):
        _, signed = _split(signed)
    _, after = _split(_content(signed, _SEQUENCE))
    kind, (content, _) = after[0], _split(after)
    text = content.decode("ascii").removesuffix("Z")
    if kind == _UTC_TIME:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif kind != _TIME:
        raise ValueError(f"a time has tag {kind}")
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _content(data: bytes, tag: int) -> bytes:
    if data[0] != tag:
        raise ValueError(f"tag {data[0]} in the place of {tag}")
    return _split(data)[0]


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first element, and the rest."""
    length, start = data[1], 2
    if length & 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(data[2:start], "big")
    if start + length > len(data):
        raise ValueError("it is cut off")
    return data[start : start + length], data[start + length :]
