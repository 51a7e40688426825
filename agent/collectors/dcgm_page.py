"""Reads a dcgm-exporter's page: utilisation and memory by UUID, and what shows that the page still moves."""

import math
import re
from collections.abc import Mapping

import msgspec

UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
MEMORY_USED = "DCGM_FI_DEV_FB_USED"  # MiB, without what the driver reserves

_MIB = 1024 * 1024
_LINE = re.compile(r"(DCGM_FI_[A-Z0-9_]+)\{(.*)\} (\S+)(?: [0-9]+)?", re.ASCII)
_UUID = re.compile(r'(?:^|,)\s*UUID="([^"\\]*)"')
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?(e\+?[0-9]{1,2})?", re.ASCII | re.IGNORECASE)


class BadPageError(Exception):
    """The page is not what a dcgm-exporter shows: nothing may be concluded from any part of it."""


class DcgmPage(msgspec.Struct, frozen=True):
    """The highest value of each GPU, should one have several lines. `moving` is every value of the page."""

    utilization_percent: Mapping[str, int]
    memory_used_bytes: Mapping[str, int]
    moving: frozenset[str]


def parse_page(text: str) -> DcgmPage:
    """Raises BadPageError."""
    if not text.endswith("\n"):
        raise BadPageError("the page ends in the middle of a line")
    lines = frozenset(line for line in text.splitlines() if line.startswith("DCGM_FI_"))
    wanted: dict[str, dict[str, int]] = {UTILIZATION: {}, MEMORY_USED: {}}
    for line in lines:
        name = line.split("{", 1)[0].split(" ", 1)[0]
        if name in wanted:
            uuid, value = _value(line)
            wanted[name][uuid] = max(value, wanted[name].get(uuid, 0))
    for name, values in wanted.items():
        if not values:
            raise BadPageError(f"the page has no {name}: is it a dcgm-exporter's, with that field turned on?")
    used = {uuid: value * _MIB for uuid, value in wanted[MEMORY_USED].items()}
    return DcgmPage(wanted[UTILIZATION], used, lines)


def _value(line: str) -> tuple[str, int]:
    """Rounded up, so that nothing that is above 0 becomes 0."""
    matched = _LINE.fullmatch(line)
    uuid = _UUID.search(matched.group(2)) if matched else None
    if matched is None or uuid is None or _NUMBER.fullmatch(matched.group(3)) is None:
        raise BadPageError(f"the page has a line that cannot be read: {line[:160]!r}")
    return uuid.group(1), math.ceil(float(matched.group(3)))
