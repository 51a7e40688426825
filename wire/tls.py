"""TLS towards the bus: one certificate authority is trusted, the config's, and nobody else's."""

import logging
import ssl
from pathlib import Path

from wire.configfile import ConfigError


def client_context(ca_file: Path) -> ssl.SSLContext:
    """TLS 1.3, the server's certificate and host name checked. Raises ConfigError for a file that holds none."""
    try:
        return context_of(ca_file.read_text(encoding="ascii"))
    except OSError as error:
        raise ConfigError(
            f"the certificate authority {ca_file} cannot be read: {error.strerror}: see bus.ca in the config; on a "
            "node gpu-oncall-agent join writes it"
        ) from error
    except ValueError as error:
        raise ConfigError(f"the file {ca_file} holds no certificate: see bus.ca in the config") from error


def context_of(ca_pem: str) -> ssl.SSLContext:
    """The same from the certificate itself. Raises ValueError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(cadata=ca_pem)
    except ssl.SSLError as error:
        raise ValueError("no certificate") from error
    return context


def words(error: BaseException) -> str:
    """A connection's trouble as a person can use it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "the server does not speak TLS first, so nothing was said to it"
    return str(error) or type(error).__name__


def _is_noise(record: logging.LogRecord) -> bool:
    return "returning true from eof_received()" in str(record.msg)


# nats-py causes one such warning at every end of a TLS connection; it says nothing.
logging.getLogger("asyncio").addFilter(lambda record: not _is_noise(record))
