"""The windows of a whole fleet, as they lie in the stream: all nodes' first window, then all second ones."""

from bot.ingest import Arrived
from tests.build import FIRST_WINDOW, observation
from wire import subjects
from wire.messages import Observation, Verdict, encode

GPUS = 8


def fleet_windows(nodes: int, windows: int) -> list[Arrived]:
    """2.6 KB each: even GPUs are free, odd ones held by a process, and GPU 0 changes at every window."""
    reports = [_report(node, window) for window in range(windows) for node in range(nodes)]
    return [Arrived(subjects.observations(one.node), seq, encode(one)) for seq, one in enumerate(reports, 1)]


def _report(node: int, window: int) -> Observation:
    is_held = [(index + (window if index == 0 else 0)) % 2 for index in range(GPUS)]
    verdicts = [Verdict.HELD if held else Verdict.CANDIDATE for held in is_held]
    return observation(FIRST_WINDOW + window, verdicts, node=f"gpu-{node:04d}")
