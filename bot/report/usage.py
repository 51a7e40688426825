"""Hours of the record -> what every GPU did, by hour of the week."""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bot.report.model import SLOTS, Energy, GpuUse, Price, Sums

_JOULES_PER_KWH = 3_600_000.0
Named = Mapping[tuple[str, str], tuple[int, str | None]]


class SlotRow(msgspec.Struct, frozen=True, gc=False):
    """One GPU in one hour of the week, summed over the weeks; several rows may be of one slot."""

    node: str
    uuid: str
    slot: int
    sums: tuple[float, ...]


def uses(rows: Iterable[SlotRow], named: Named) -> tuple[list[GpuUse], int]:
    """The GPUs by node and index, and how many rows could not be used. `named` has index and model by node and UUID."""
    by_gpu: dict[tuple[str, str], list[Sums | None]] = {}
    unreadable = 0
    for row in rows:
        if not (0 <= row.slot < SLOTS and all(math.isfinite(one) and one >= 0 for one in row.sums)):
            unreadable += 1
            continue
        slots = by_gpu.setdefault((row.node, row.uuid), [None] * SLOTS)
        sums, before = Sums(*row.sums), slots[row.slot]
        slots[row.slot] = sums if before is None else added([before, sums])
    found = [_use(node, uuid, slots, named) for (node, uuid), slots in by_gpu.items()]
    return sorted(found, key=_order), unreadable


def _use(node: str, uuid: str, slots: Sequence[Sums | None], named: Named) -> GpuUse:
    index, model = named.get((node, uuid), (None, None))
    return GpuUse(node, uuid, index, model, added(one for one in slots if one is not None), slots)


def _order(use: GpuUse) -> tuple[str, bool, int, str]:
    return use.node, use.index is None, use.index or 0, use.uuid


def added(parts: Iterable[Sums]) -> Sums:
    columns = list(zip(*map(msgspec.structs.astuple, parts), strict=True))
    return Sums(*map(math.fsum, columns)) if columns else Sums()


def energy(seconds: float, joules: float, read_seconds: float, price: Price) -> Energy:
    """Of so many seconds, in which the power was read for some: the rest counts by the config, or not at all."""
    if seconds <= 0:
        return Energy(0.0, 1.0, 0.0 if price.per_kwh is not None else None)
    rest = max(seconds - read_seconds, 0.0)
    assumed = rest * price.watts_idle if price.watts_idle is not None else 0.0
    known = seconds if price.watts_idle is not None else min(read_seconds, seconds)
    if known <= 0:
        return Energy()
    kwh = (joules + assumed) / _JOULES_PER_KWH
    return Energy(kwh, known / seconds, kwh * price.per_kwh if price.per_kwh is not None else None)
