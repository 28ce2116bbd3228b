"""The self-made certificate of `--tls`: for localhost, 127.0.0.1 and ::1, kept until it is about to end.

Two files in `<data folder>/tls`: `ca.pem`, which clients are told to trust, and `localhost.pem`, the certificate with
its key. The key of the authority is thrown away as soon as it has signed this one certificate: whoever trusts `ca.pem`
trusts nothing else. Renewing makes both anew under the same names, so that what points to the file stays right.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from models.file_lock import exclusive_lock

NAMES = ("localhost", "127.0.0.1", "::1")

LIFETIME = timedelta(days=397)
"""Chosen; Apple's systems accept at most 825 days of a certificate whose authority the user added."""

RENEWAL = timedelta(days=30)
"""How long before its end it is made anew (chosen)."""

_BACKDATED = timedelta(days=1)
_OWNER = "duplex-gateway"
_PRIVATE = 0o600


class CertificateError(Exception):
    """A certificate cannot be made or used. The text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class LocalCertificate:
    """Paths of the authority to trust and of the certificate with its key (PEM)."""

    authority: Path
    chain: Path


def local_certificate(data_folder: Path, now: datetime | None = None) -> LocalCertificate:
    """Return the certificate kept under `data_folder`, made if there is none or it is about to end.

    Several processes may ask at once. Raises CertificateError.
    """
    folder = data_folder / "tls"
    kept = LocalCertificate(folder / "ca.pem", folder / "localhost.pem")
    now = now or datetime.now(UTC)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with exclusive_lock(folder / ".lock"):
            if not _is_good(kept, now):
                _make(kept, now)
    except OSError as error:
        raise CertificateError(
            f"The certificate for --tls cannot be kept in {folder} ({error.strerror or error}): "
            "make the folder writable or choose another with --home."
        ) from error
    return kept


def _is_good(kept: LocalCertificate, now: datetime) -> bool:
    try:
        authority = x509.load_pem_x509_certificate(kept.authority.read_bytes())
        certificate = x509.load_pem_x509_certificate(kept.chain.read_bytes())
        certificate.verify_directly_issued_by(authority)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(kept.chain)
    except (FileNotFoundError, ValueError, TypeError, InvalidSignature, ssl.SSLError):
        return False  # missing, damaged, or halves of two makings
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - RENEWAL


def _make(kept: LocalCertificate, now: datetime) -> None:
    authority = trustme.CA(organization_name=_OWNER, organization_unit_name="localhost only", path_length=0)
    certificate = authority.issue_cert(
        *NAMES,
        common_name=NAMES[0],
        organization_name=_OWNER,
        not_before=now - _BACKDATED,
        not_after=now + LIFETIME - _BACKDATED,
    )
    _write(kept.authority, authority.cert_pem.bytes())
    _write(
        kept.chain, b"".join(blob.bytes() for blob in certificate.cert_chain_pems) + certificate.private_key_pem.bytes()
    )


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    half = path.with_suffix(".new")
    with contextlib.suppress(FileNotFoundError):
        half.unlink()
    with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
        file.write(content)
    half.replace(path)


def server_context(certificate: Path, key: Path | None = None) -> ssl.SSLContext:
    """Return what a TLS listener needs. `key` None: it is in the certificate's file. Raises CertificateError."""
    context = without_tickets(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    names = " and ".join(str(path) for path in (certificate, key) if path is not None)
    try:
        context.load_cert_chain(certificate, key, password=_refuse_to_ask)
    except _Encrypted:
        raise CertificateError(
            f"The private key in {key or certificate} is encrypted: give one without a password."
        ) from None
    except ssl.SSLError as error:
        reason = (error.reason or "not readable").replace("_", " ").lower()
        raise CertificateError(
            f"The certificate in {names} cannot be used ({reason}): give a PEM chain and the key that belongs to it."
        ) from error
    except OSError as error:
        raise CertificateError(f"The certificate in {names} cannot be read ({error.strerror}).") from error
    return context


def without_tickets(context: ssl.SSLContext) -> ssl.SSLContext:
    """Return `context`, which sends no session tickets any more.

    They come just after the handshake, while a client that reads in one thread writes its first request in another, as
    the synchronous OpenAI SDK does. Python's ssl was not made for that before 3.13: 3 % of such connections hung
    (Python 3.11, 2,500 on loopback, busy machine, 2026-11-30; without tickets none).
    """
    context.num_tickets = 0
    return context


class _Encrypted(Exception):
    pass


def _refuse_to_ask() -> str:
    raise _Encrypted
