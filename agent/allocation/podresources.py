"""Reads kubelet's answer to `v1.PodResourcesLister/List`: the few fields of its protobuf that say who has which device.

Field numbers: k8s.io/kubelet, pkg/apis/podresources/v1/api.proto.
"""

from collections.abc import Iterator

import msgspec

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LENGTHS = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10


class BadListError(ValueError):
    """The bytes are no such answer."""


class Device(msgspec.Struct, frozen=True):
    """A device that a device plugin gave to a pod (namespace/name)."""

    pod: str
    resource: str
    identity: str


class Claim(msgspec.Struct, frozen=True):
    """Something that a pod has by dynamic resource allocation: the driver's name and its CDI devices' names."""

    pod: str
    names: tuple[str, ...]


def parse_list(answer: bytes) -> tuple[list[Device], list[Claim]]:
    """Raises BadListError."""
    devices: list[Device] = []
    claims: list[Claim] = []
    for pod in _messages(answer, 1):
        name = f"{_text(pod, 2)}/{_text(pod, 1)}"
        for container in _messages(pod, 3):
            for device in _messages(container, 2):
                devices += [Device(name, _text(device, 1), _decoded(one)) for one in _messages(device, 2)]
            for dynamic in _messages(container, 5):
                claims.append(Claim(name, tuple(_claimed(dynamic))))
    return devices, claims


def _claimed(dynamic: bytes) -> Iterator[str]:
    for resource in _messages(dynamic, 4):
        yield from (_text(device, 1) for device in _messages(resource, 1))
        yield _text(resource, 2)


def _messages(data: bytes, wanted: int) -> list[bytes]:
    """Every field of that number, as bytes."""
    found = []
    for number, value in _fields(data):
        if number == wanted:
            if value is None:
                raise BadListError(f"field {wanted} is no message")
            found.append(value)
    return found


def _text(data: bytes, wanted: int) -> str:
    """The last one counts; "" where there is none."""
    return next((_decoded(value) for value in reversed(_messages(data, wanted))), "")


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise BadListError("a name is no UTF-8") from error


def _fields(data: bytes) -> Iterator[tuple[int, bytes | None]]:
    """Number and bytes of each field; None for numbers, of which nothing is needed."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            _, at = _varint(data, at)
            yield number, None
            continue
        length = _LENGTHS.get(kind)
        if kind == _BYTES:
            length, at = _varint(data, at)
        if length is None or number == 0 or at + length > len(data):
            raise BadListError("the answer is cut off, or of another kind")
        yield number, data[at : at + length] if kind == _BYTES else None
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return value, at + position + 1
    raise BadListError("the answer is cut off in a number")
