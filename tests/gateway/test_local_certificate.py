from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from gateway.app import create_app
from gateway.local_certificate import (
    LIFETIME,
    NAMES,
    RENEWAL,
    CertificateError,
    LocalCertificate,
    local_certificate,
    server_context,
)
from gateway.serving import server_config
from gateway.settings import Settings

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def loaded(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def contents(kept: LocalCertificate) -> tuple[bytes, bytes]:
    return kept.authority.read_bytes(), kept.chain.read_bytes()


def test_the_certificate_is_for_this_machine_only(tmp_path: Path) -> None:
    kept = local_certificate(tmp_path, NOW)
    names = loaded(kept.chain).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    assert (*names.get_values_for_type(x509.DNSName), *addresses) == NAMES
    loaded(kept.chain).verify_directly_issued_by(loaded(kept.authority))
    assert loaded(kept.chain).not_valid_after_utc - loaded(kept.chain).not_valid_before_utc == LIFETIME


def test_only_the_owner_can_read_it_and_the_authoritys_key_is_nowhere(tmp_path: Path) -> None:
    kept = local_certificate(tmp_path, NOW)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (kept.authority, kept.chain)} == {0o600}
    assert {path.name for path in (tmp_path / "tls").iterdir()} == {"ca.pem", "localhost.pem", ".lock"}
    assert b"PRIVATE KEY" not in kept.authority.read_bytes()
    key = serialization.load_pem_private_key(kept.chain.read_bytes(), None)
    assert key.public_key() == loaded(kept.chain).public_key() != loaded(kept.authority).public_key()


def test_it_is_kept_until_it_is_about_to_end(tmp_path: Path) -> None:
    first = contents(local_certificate(tmp_path, NOW))
    end = loaded(tmp_path / "tls" / "localhost.pem").not_valid_after_utc
    assert contents(local_certificate(tmp_path, end - RENEWAL - timedelta(seconds=1))) == first
    renewed = contents(local_certificate(tmp_path, end - RENEWAL))
    assert renewed[0] != first[0]
    assert renewed[1] != first[1]


@pytest.mark.parametrize("name", ["ca.pem", "localhost.pem"])
@pytest.mark.parametrize("damage", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", None])
def test_a_missing_damaged_or_mismatched_half_is_made_anew(tmp_path: Path, name: str, damage: bytes | None) -> None:
    kept = local_certificate(tmp_path, NOW)
    path = tmp_path / "tls" / name
    if damage is None:
        path.write_bytes((local_certificate(tmp_path / "other", NOW).authority.parent / name).read_bytes())
    else:
        path.write_bytes(damage)
    damaged = contents(kept)
    assert contents(local_certificate(tmp_path, NOW)) != damaged
    loaded(kept.chain).verify_directly_issued_by(loaded(kept.authority))


def test_a_key_that_is_gone_from_the_file_is_made_anew(tmp_path: Path) -> None:
    kept = local_certificate(tmp_path, NOW)
    kept.chain.write_bytes(
        kept.chain.read_bytes().split(b"-----BEGIN EC PRIVATE KEY")[0].split(b"-----BEGIN PRIVATE")[0]
    )
    server_context(local_certificate(tmp_path, NOW).chain)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("a file, not a folder")
    with pytest.raises(CertificateError, match=r"cannot be kept in .*: make the folder writable .*\.$"):
        local_certificate(tmp_path, NOW)


def test_a_users_own_certificate_is_taken_with_its_key(tmp_path: Path) -> None:
    certificate = trustme.CA().issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    assert isinstance(server_context(tmp_path / "cert.pem", tmp_path / "key.pem"), ssl.SSLContext)


def test_no_listener_sends_session_tickets_on_which_threaded_clients_hang(tmp_path: Path) -> None:
    kept = local_certificate(tmp_path, NOW)
    assert server_context(kept.chain).num_tickets == 0
    settings = Settings(profile="scripted", ssl_certfile=kept.chain, ssl_keyfile=kept.chain)
    config = server_config(create_app(settings), settings)
    config.load()
    assert config.ssl.num_tickets == 0


def test_a_certificate_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate, other = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    (tmp_path / "no.pem").write_text("nothing")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    other.private_key_pem.write_to_path(tmp_path / "other.pem")
    key = serialization.load_pem_private_key(other.private_key_pem.bytes(), None)
    (tmp_path / "encrypted.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    for pair, words in (
        (("cert.pem", "other.pem"), "key values mismatch"),
        (("no.pem", "other.pem"), "cannot be used"),
        (("cert.pem", "encrypted.pem"), "is encrypted"),
        (("missing.pem", "other.pem"), "cannot be read"),
    ):
        with pytest.raises(CertificateError, match=words) as caught:
            server_context(*(tmp_path / name for name in pair))
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith(".")
