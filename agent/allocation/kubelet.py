"""Asks the kubelet which pod it gave which GPU to: also a pod that runs nothing on it."""

import importlib
import logging
import os
import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from agent.allocation.given import Given, NodeGpus
from agent.allocation.podresources import BadListError, Claim, Device, parse_list

DAEMONS = frozenset({"kubelet", "kubelite", "k3s", "k3s-server", "k3s-agent"})
DEADLINE = timedelta(seconds=2)
LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
_METHOD = "/v1.PodResourcesLister/List"
_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", LARGEST_ANSWER_BYTES),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)
# What device plugins call a GPU: its UUID anywhere in the name (time slicing and vGPU add to it), its index, or its
# device file (GKE).
_NUMBER = re.compile(r"(nvidia)?([0-9]{1,3})(?:$|[/:])", re.ASCII)
_OURS = "nvidia.com/"

_log = logging.getLogger(__name__)


class Kubelet:
    """Holds one connection; gRPC makes it anew by itself."""

    name = "kubelet"

    def __init__(self, socket: Path, deadline: timedelta = DEADLINE) -> None:
        self._socket, self._deadline_seconds = socket, deadline.total_seconds()
        self._channel: Any = None
        self._list: Any = None

    def read(self, gpus: NodeGpus, daemons: frozenset[str]) -> Given | None:
        if not _is_there(self._socket):
            return self._without_socket(daemons)
        try:
            return given(*parse_list(self._ask()), gpus)
        except ImportError:
            return Given(error="a kubelet runs, and grpcio is not installed: install gpu-oncall[agent,k8s]")
        except BadListError as error:
            return Given(error=f"kubelet's answer cannot be read: {error}")
        except Exception as error:  # grpc.RpcError, which only exists where grpcio is
            return Given(error=f"kubelet does not tell what it gave away: {_words(error)}")

    def _without_socket(self, daemons: frozenset[str]) -> Given | None:
        """Pods live on while their kubelet is away, so its folder alone means that GPUs may be given away."""
        if daemons & DAEMONS:
            return Given(error=f"a kubelet runs, but there is no {self._socket}")
        folder = self._socket.parent
        if not _is_there(folder):
            return None
        return Given(error=f"no kubelet answers in {folder}: start it, or remove that folder from a node of no cluster")

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = self._list = None

    def _ask(self) -> bytes:
        if self._list is None:
            self._open()
        answer: bytes = self._list(b"", timeout=self._deadline_seconds)
        return answer

    def _open(self) -> None:
        os.environ.setdefault(
            "GRPC_ENABLE_FORK_SUPPORT", "0"
        )  # the agent starts other programs, and forks no other way
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        grpc = importlib.import_module("grpc")  # 17 MiB: only where a kubelet is
        self._channel = grpc.insecure_channel(f"unix://{self._socket}", options=_OPTIONS)
        self._list = self._channel.unary_unary(_METHOD)
        _log.info("asking kubelet for its pods' devices socket=%s", self._socket)


def _is_there(path: Path) -> bool:
    """Raises OSError where that cannot be seen: `Path.exists` says no then, for every error from Python 3.14 on."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _words(error: Exception) -> str:
    code = getattr(error, "code", None)
    name = str(getattr(code(), "name", "")) if callable(code) else ""
    return name or f"{type(error).__name__}: {error}"


def given(devices: Iterable[Device], claims: Iterable[Claim], gpus: NodeGpus) -> Given:
    """Holders by UUID. A GPU that is named in a way that cannot be told apart is an error: it may be any."""
    holders: dict[str, list[str]] = {}
    errors = [f"pod {claim.pod} has a GPU by a resource claim" for claim in claims if _claims_a_gpu(claim)]
    for device in devices:
        uuid = _uuid(device, gpus)
        if uuid is not None:
            holders.setdefault(uuid, []).append(f"pod {device.pod}")
        elif _may_be_one_of_ours(device):
            errors.append(f"pod {device.pod} has {device.resource} {device.identity[:60]}, which is no known GPU here")
    named = {uuid: ", ".join(dict.fromkeys(pods)) for uuid, pods in holders.items()}
    return Given(named, "; ".join(errors) or None)


def _uuid(device: Device, gpus: NodeGpus) -> str | None:
    if (uuid := gpus.named_in(device.identity)) is not None:
        return uuid
    number = _NUMBER.match(device.identity)
    if number is None or not device.resource.startswith(_OURS):
        return None
    return (gpus.by_minor() if number.group(1) else gpus.by_index).get(int(number.group(2)))


def _may_be_one_of_ours(device: Device) -> bool:
    """A GPU under a name unlike any that is known. A MIG instance is of a GPU that is not judged anyway."""
    is_gpu = device.resource.startswith(_OURS) and "gpu" in device.resource.removeprefix(_OURS)
    return is_gpu and not device.identity.startswith(("MIG-", "GPU-"))


def _claims_a_gpu(claim: Claim) -> bool:
    """Its device's name leads to a UUID only through the API server; compute domains are no GPUs."""
    return any("gpu.nvidia.com" in name for name in claim.names)
