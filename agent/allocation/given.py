"""What schedulers say of GPUs, put together for each one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol

import msgspec
from msgspec.structs import replace

from wire.messages import Allocation, AllocationState

LONGEST_DETAIL = 200


class NodeGpus(msgspec.Struct, frozen=True):
    """The GPUs of this node as schedulers name them: by UUID, by index, by the number of /dev/nvidiaN.

    `by_minor` asks the driver at its first call: few schedulers name GPUs like that, and a driver may hang.
    """

    uuids: tuple[str, ...]
    by_index: Mapping[int, str]
    by_minor: Callable[[], Mapping[int, str]] = dict

    def named_in(self, text: str) -> str | None:
        """The GPU whose UUID stands in the text, in whatever letter case."""
        return next((uuid for uuid in self.uuids if uuid.lower() in text.lower()), None)


def node_gpus(index_by_uuid: Mapping[str, int], read_minors: Callable[[], Mapping[int, str]]) -> NodeGpus:
    """`read_minors` may name UUIDs in another letter case, and GPUs that were not read: those are left out."""
    gpus = NodeGpus(tuple(index_by_uuid), {index: uuid for uuid, index in index_by_uuid.items()})

    @cache
    def by_minor() -> Mapping[int, str]:
        named = ((minor, gpus.named_in(text)) for minor, text in read_minors().items())
        return {minor: uuid for minor, uuid in named if uuid is not None}

    return replace(gpus, by_minor=by_minor)


class Given(msgspec.Struct, frozen=True):
    """What one scheduler that runs here says: holders by UUID. With an `error` any other GPU may be given away too."""

    holders: Mapping[str, str] = {}
    error: str | None = None


class Scheduler(Protocol):
    """Something that gives GPUs away."""

    name: str

    def read(self, gpus: NodeGpus, daemons: frozenset[str]) -> Given | None:
        """None where it does not run on this node. Blocks for 2 s at most."""

    def close(self) -> None:
        """Lets go of what is held open; no question may follow."""


def allocations(gpus: Iterable[str], given: Sequence[Given]) -> dict[str, Allocation]:
    """One for each GPU; none at all where nothing that allocates runs here."""
    return {uuid: _allocation(uuid, given) for uuid in gpus} if given else {}


def _allocation(uuid: str, given: Sequence[Given]) -> Allocation:
    holders = [one.holders[uuid] for one in given if uuid in one.holders]
    errors = [one.error for one in given if one.error is not None]
    if holders:
        return Allocation(AllocationState.ALLOCATED, ", ".join(holders)[:LONGEST_DETAIL])
    if errors:
        return Allocation(AllocationState.UNREADABLE, "; ".join(errors)[:LONGEST_DETAIL])
    return Allocation(AllocationState.FREE)
