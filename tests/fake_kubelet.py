"""A kubelet's PodResources API: a real gRPC server on a Unix socket, whose answer is encoded here by the api.proto."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

METHOD = "/v1.PodResourcesLister/List"


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    body = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(body)) + body


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def pod(name: str, *devices: bytes, namespace: str = "ml") -> bytes:
    """With the fields beside those that are read: a CPU list and a topology with a NUMA node."""
    container = field(1, "main") + b"".join(devices) + field(3, bytes([1, 2, 3]))
    return field(1, field(1, name) + field(2, namespace) + field(3, field(1, "sidecar")) + field(3, container))


def device(*identities: str, resource: str = "nvidia.com/gpu") -> bytes:
    body = field(1, resource) + b"".join(field(2, identity) for identity in identities)
    return field(2, body + field(3, field(1, field(1, 1))))


def claim(driver: str = "gpu.nvidia.com", cdi: str = "k8s.gpu.nvidia.com/claim=x") -> bytes:
    resource = field(1, field(1, cdi)) + field(2, driver) + field(3, "node-1") + field(4, "gpu-0")
    return field(5, field(2, "my-claim") + field(3, "ml") + field(4, resource))


class FakeKubelet:
    """`answer` is sent to every question; `fail` is a gRPC status to end with instead; `wait` holds the answer back."""

    def __init__(self, socket: Path) -> None:
        self.socket, self.answer = socket, b""
        self.fail: grpc.StatusCode | None = None
        self.authorities: list[str] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(self._list)
        service, method = METHOD.strip("/").split("/")
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        self._server.add_insecure_port(f"unix://{socket}")

    def __enter__(self) -> "FakeKubelet":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def _list(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        assert request == b""
        if self.fail is not None:
            context.abort(self.fail, "refused")
        return self.answer
