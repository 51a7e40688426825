"""Addresses that may stand in config.yaml."""

import pytest

from wire.addresses import BadAddressError, host_and_port, is_loopback, server_host


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
        server_host(url)


def test_this_machine_is_told_from_others():
    assert [
        h for h in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "0.0.0.0", "10.0.0.1", "host") if is_loopback(h)
    ] == [
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "localhost",
    ]
