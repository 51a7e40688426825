"""Our own certificate authority, and the server certificate that it signs: `tls/` in the data_dir."""

import ipaddress
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from wire.configfile import ConfigError
from wire.files import give_to_owner, write_private

log = logging.getLogger(__name__)

CA_LIFE = timedelta(days=20 * 365)
SERVER_LIFE = timedelta(days=90)
RENEW_BEFORE = timedelta(days=30)
_BACKDATED = timedelta(hours=1)  # nodes' clocks may be behind
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class TlsFiles:
    """`server` holds key and certificate in one file, so that they change together. Only `ca` is no secret."""

    ca: Path
    ca_key: Path
    server: Path


def tls_files(data_dir: Path) -> TlsFiles:
    folder = data_dir / "tls"
    return TlsFiles(folder / "ca.pem", folder / "ca.key", folder / "server.pem")


def make_authority(data_dir: Path, now: datetime) -> None:
    """Raises OSError. Whoever has the key may pretend to be the bot's server."""
    files = tls_files(data_dir)
    files.ca.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    give_to_owner(files.ca.parent, data_dir)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"gpu-oncall {os.urandom(4).hex()}")])
    certificate = (
        _builder(name, name, key.public_key(), now, CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_private(files.ca_key, _pem_key(key))
    write_private(files.ca, _pem(certificate))


def renew_certificate(data_dir: Path, names: Sequence[str], now: datetime) -> bool:
    """Makes the server's certificate where it is missing, ends soon or names other hosts; whether it did.

    Raises ConfigError where the authority cannot be used.
    """
    files = tls_files(data_dir)
    wanted = [*dict.fromkeys(_canonical(name) for name in (*names, *_LOOPBACK))]
    try:
        if not files.ca.exists() and not files.ca_key.exists():
            make_authority(data_dir, now)
            log.info("certificate authority made file=%s", files.ca)
        authority = x509.load_pem_x509_certificate(files.ca.read_bytes())
        if not _is_due(files, wanted, authority, now):
            return False
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign_server(authority, _load_key(files.ca_key), key.public_key(), wanted, now)
        write_private(files.server, _pem_key(key) + _pem(certificate))
    except OSError as error:
        raise ConfigError(f"{error.filename or files.ca.parent} cannot be used: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"the certificate authority in {files.ca.parent} cannot be used: {error}: put back ca.pem and ca.key from "
            "a backup, or remove the folder, run init again and let all nodes join again"
        ) from error
    log.info("server certificate made names=%s ends=%s", ",".join(wanted), certificate.not_valid_after_utc.date())
    return True


def authority_der(ca_file: Path) -> bytes:
    """The authority's certificate as a token carries it. Raises ConfigError."""
    try:
        return x509.load_pem_x509_certificate(ca_file.read_bytes()).public_bytes(serialization.Encoding.DER)
    except OSError as error:
        how = (
            ": gpu-oncall init makes it; of servers of your own: bot.bus.ca"
            if isinstance(error, FileNotFoundError)
            else ""
        )
        raise ConfigError(f"the certificate authority {ca_file} cannot be read: {error.strerror}{how}") from error
    except ValueError as error:
        raise ConfigError(f"the file {ca_file} holds no certificate") from error


def _is_due(files: TlsFiles, names: Sequence[str], authority: x509.Certificate, now: datetime) -> bool:
    try:
        content = files.server.read_bytes()
        _load_key(files.server)
        present = x509.load_pem_x509_certificate(content)
        present.verify_directly_issued_by(authority)
    except FileNotFoundError:
        return True
    except Exception as error:  # damaged, or of another authority: a new one mends it
        log.warning("server certificate is replaced, it cannot be used error=%s", type(error).__name__)
        return True
    return _names_in(present) != set(names) or present.not_valid_after_utc - now < RENEW_BEFORE


def _names_in(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return {*names.get_values_for_type(x509.DNSName), *addresses}


def _sign_server(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePublicKey,
    names: Iterable[str],
    now: datetime,
) -> x509.Certificate:
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]  # the latter between cluster servers
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpu-oncall bus")])
    life = min(SERVER_LIFE, authority.not_valid_after_utc - now)
    return (
        _builder(subject, authority.subject, key, now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + life)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _canonical(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower().rstrip(".")


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _load_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{file.name} holds another kind of key")
    return key


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _pem_key(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
