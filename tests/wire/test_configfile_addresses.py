"""Addresses that may stand in config.yaml."""

import pytest

from wire.addresses import BadAddressError, NotSaidError, host_and_port, is_host, is_loopback, server_address


@pytest.mark.parametrize(
    ("text", "parts"),
    [("127.0.0.1:4222", ("127.0.0.1", 4222)), ("[::1]:1", ("::1", 1)), ("localhost:65535", ("localhost", 65535))],
)
def test_host_and_port_are_read(text, parts):
    assert host_and_port(text) == parts


@pytest.mark.parametrize(
    "text", ["", "4222", "host", ":4222", "host:", "host:0", "host:65536", "a:b", "u@h:1", "h:1/x", "[::1:1"]
)
def test_anything_else_is_no_address(text):
    with pytest.raises(BadAddressError):
        host_and_port(text)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:1", "http://h:1", "nats://h", "nats://:1", "nats://h:99999", "nats://u:p@h:1", "nats://h:1/x"]
)
def test_a_server_needs_scheme_host_and_port_and_no_password(url):
    with pytest.raises(BadAddressError):
        server_address(url, insecure=True)


def test_a_server_elsewhere_must_be_spoken_to_in_tls_and_one_here_should():
    assert server_address("tls://bot-host:4222", insecure=False).hostname == "bot-host"
    assert server_address("nats://127.0.0.1:4222", insecure=True).port == 4222
    with pytest.raises(NotSaidError, match="must be set to true for an address with nats://"):
        server_address("nats://127.0.0.1:4222", insecure=False)
    with pytest.raises(BadAddressError, match="bot-host is not this machine"):
        server_address("nats://bot-host:4222", insecure=True)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        *((name, True) for name in ("bot-host", "a.example", "10.0.0.5", "::1")),
        *((name, False) for name in ("h:1", "10.0.0.256", "", "*.example", "-a", "a..b", 'a"b')),
    ],
)
def test_a_certificate_names_hosts_and_addresses(text, fits):
    assert is_host(text) is fits


def test_this_machine_is_told_from_others():
    assert [
        h for h in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "0.0.0.0", "10.0.0.1", "host") if is_loopback(h)
    ] == [
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "localhost",
    ]
