"""Certificates for `[tls]`: an authority for the cluster, and certificates that it signs.

A certificate names a node or a client: `node-2.office` is node 2 of the cluster office,
`client-alice.office` is a client.  A host with a name like that of another node or client is
refused, and so is a wildcard, because its certificate would be valid for both.  The certificate of
a client cannot be used to serve as a node.

Existing files are kept and checked.  Everything is checked before anything is written, and a key
file is readable only by its owner from the moment it exists.  The key of the authority stays with
the operator; no node needs it.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from habemus.runtimes.live.peers.handshake import client_name, node_name

DAYS = 825
AUTHORITY_DAYS = 3650
SLACK = timedelta(hours=1)
"""Certificates are valid from a little before their creation, to allow for clock skew."""
SECRET_SIZE = 32


class BadCertificates(ValueError):
    """Unusable files or invalid names; the message is one line."""


class CertificateFiles(NamedTuple):
    """A certificate and its key."""

    certificate: Path
    key: Path


class Subject(NamedTuple):
    """The name in a certificate, and its files."""

    name: str
    files: CertificateFiles
    hosts: tuple[str, ...] = ()  # addresses at which clients reach it
    is_node: bool = True


class IssuedCertificate(NamedTuple):
    """A certificate that was made, or kept."""

    name: str
    files: CertificateFiles
    expires: datetime
    is_new: bool


class Credential(NamedTuple):
    """A certificate and its key, in memory."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def node(cluster: str, number: int, files: CertificateFiles, hosts: Sequence[str] = ()) -> Subject:
    name = node_name(cluster, number)
    return Subject(name, files, tuple(dict.fromkeys(_host(host, name, cluster) for host in hosts)))


def client(cluster: str, client: str, files: CertificateFiles) -> Subject:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", client):
        raise BadCertificates(
            f"{client!r} is not a name for a client; use 1 to 40 lower-case letters, digits and"
            " inner hyphens"
        )
    return Subject(client_name(cluster, client), files, is_node=False)


def make(
    authority: CertificateFiles,
    cluster: str,
    subjects: Sequence[Subject],
    days: int = DAYS,
    renew: bool = False,
) -> list[IssuedCertificate]:
    """Write missing certificates: the authority first, then the subjects in their order.

    Existing ones must be valid: for that name, signed by that authority, not expired.  With `renew`
    the certificates and keys of the subjects are replaced, never those of the authority.
    """
    _check_paths([authority, *(subject.files for subject in subjects)])
    for files in [authority, *([] if renew else [subject.files for subject in subjects])]:
        _check_both(files)
    now = datetime.now(UTC)
    signer, exists = _load_authority(authority, now), authority.certificate.exists()
    if signer is None:
        signer = _new_authority(cluster, now)
    made = [
        IssuedCertificate(
            f"the authority of {cluster}",
            authority,
            signer.certificate.not_valid_after_utc,
            not exists,
        )
    ]
    signed: list[tuple[CertificateFiles, Credential]] = [] if exists else [(authority, signer)]
    for subject in subjects:
        kept = None if renew else _load_signed(subject, signer, authority, now)
        certificate, key = kept, None
        if certificate is None:
            certificate, key = _sign(subject, signer, days, now)
            signed.append((subject.files, Credential(certificate, key)))
        made.append(
            IssuedCertificate(
                subject.name, subject.files, certificate.not_valid_after_utc, kept is None
            )
        )
    for files, (certificate, key) in signed:
        _write(files.key, _pem_of(key), 0o600, renew and files != authority)
        _write(
            files.certificate,
            certificate.public_bytes(serialization.Encoding.PEM),
            0o644,
            renew and files != authority,
        )
    return made


def make_secret(path: Path) -> bool:
    """Write a cluster secret to a file that only its owner can read.  Return False if it exists."""
    if path.exists():
        return False
    _write(path, f"{secrets.token_hex(SECRET_SIZE)}\n".encode(), 0o600, replace=False)
    return True


# Names.


def _host(host: str, name: str, cluster: str) -> str:
    """Return the host as in a certificate: an address without zone, or a lower-case name."""
    address = _address(host)
    if address is not None:
        return str(address)
    lower = host.lower().rstrip(".")
    labels = lower.split(".")
    if len(lower) > 253 or not all(
        re.fullmatch(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?", label) for label in labels
    ):
        raise BadCertificates(f"{host!r} is neither an IP address nor a host name")
    if lower != name and re.fullmatch(rf"(node|client)-[^.]*\.{re.escape(cluster)}", lower):
        raise BadCertificates(
            f"host {host!r} of {name} is the name of another node or client of cluster"
            f" {cluster!r}; use an address or another host name"
        )
    return lower


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


# Signing.


def _new_authority(cluster: str, now: datetime) -> Credential:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority of {cluster}")])
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = _builder(name, name, key.public_key(), now, now + timedelta(days=AUTHORITY_DAYS))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    return Credential(builder.sign(key, hashes.SHA256()), key)


def _sign(subject: Subject, signer: Credential, days: int, now: datetime) -> Credential:
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + timedelta(days=days), signer.certificate.not_valid_after_utc)
    addresses = [(host, _address(host)) for host in subject.hosts]
    names: list[x509.GeneralName] = [x509.DNSName(subject.name)]
    names += [
        x509.DNSName(host) if address is None else x509.IPAddress(address)
        for host, address in addresses
        if host != subject.name
    ]
    uses = [
        ExtendedKeyUsageOID.CLIENT_AUTH,
        *([ExtendedKeyUsageOID.SERVER_AUTH] if subject.is_node else []),
    ]
    issuer = signer.key.public_key()
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject.name)])
    builder = _builder(named, signer.certificate.subject, key.public_key(), now, ends)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False
    )
    return Credential(builder.sign(signer.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(ends)
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _usage(
    digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


# Files.


def _check_paths(pairs: Sequence[CertificateFiles]) -> None:
    paths = [path for files in pairs for path in files]
    for path in paths:
        if paths.count(path) > 1:
            raise BadCertificates(
                f"{path} is used for two certificates or keys; write {{id}} in the certificate and"
                " key of [tls]"
            )


def _check_both(files: CertificateFiles) -> None:
    certificate, key = files
    if certificate.exists() != key.exists():
        there, absent = (certificate, key) if certificate.exists() else (key, certificate)
        raise BadCertificates(f"{there} exists but {absent} does not; restore it, or remove both")


def _load_authority(files: CertificateFiles, now: datetime) -> Credential | None:
    if not files.certificate.exists():
        return None
    certificate, key = _certificate_in(files.certificate), _key_in(files.key)
    if key.public_key() != certificate.public_key():
        raise BadCertificates(f"{files.key} is not the key of {files.certificate}")
    try:
        is_authority = certificate.extensions.get_extension_for_class(
            x509.BasicConstraints
        ).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    if not is_authority:
        raise BadCertificates(f"{files.certificate} is not the certificate of an authority")
    if certificate.not_valid_after_utc <= now:
        raise BadCertificates(
            f"{files.certificate} expired on {certificate.not_valid_after_utc:%Y-%m-%d}; create a"
            " new authority in another folder"
        )
    return Credential(certificate, key)


def _load_signed(
    subject: Subject, signer: Credential, authority: CertificateFiles, now: datetime
) -> x509.Certificate | None:
    path, key_path = subject.files
    if not path.exists():
        return None
    certificate = _certificate_in(path)
    if _key_in(key_path).public_key() != certificate.public_key():
        raise BadCertificates(f"{key_path} is not the key of {path}; use --renew to replace both")
    try:
        certificate.verify_directly_issued_by(signer.certificate)
    except (ValueError, TypeError, InvalidSignature):
        raise BadCertificates(
            f"{path} was not signed by {authority.certificate}; use --renew to replace it"
        ) from None
    try:
        held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        held = x509.SubjectAlternativeName([])
    names = held.get_values_for_type(x509.DNSName)
    if subject.name not in names:
        raise BadCertificates(
            f"{path} is for {', '.join(names) or 'no name'}, not for {subject.name}; check the name"
            " of the cluster"
        )
    named = {*names, *map(str, held.get_values_for_type(x509.IPAddress))}
    absent = [host for host in subject.hosts if host not in named]
    if absent:
        raise BadCertificates(
            f"{path} is not valid for host {absent[0]}; use --renew to replace it"
        )
    if certificate.not_valid_after_utc <= now:
        raise BadCertificates(
            f"{path} expired on {certificate.not_valid_after_utc:%Y-%m-%d}; use --renew to replace"
            " it"
        )
    return certificate


def _certificate_in(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise BadCertificates(f"{path} is not a certificate in PEM form") from None


def _key_in(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except TypeError:
        raise BadCertificates(f"{path} is encrypted; use a key without passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadCertificates(f"{path} is not a private key in PEM form") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCertificates(f"{path} is not an elliptic-curve key")
    return key


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        encryption_algorithm=serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes, mode: int, replace: bool) -> None:
    """Write a new file; with `replace`, atomically over an existing one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"{path.name}.new") if replace else path
    if replace:
        made.unlink(missing_ok=True)
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    if replace:
        made.replace(path)
