"""The state of the weekly report: a week of two nodes."""

from datetime import timedelta

from bot.render.message import Message
from bot.render.report import report_card
from bot.report.findings import findings
from bot.report.model import SLOTS, GpuUse, Precision, Price, Report, Stall, Sums
from bot.report.usage import added, energy
from tests.bot.build_reports import MONDAY, NEXT_MONDAY
from tests.bot.build_states import EN, State
from tests.build import gpu_uuid

PRICE = Price(50.0, 0.25, "EUR")
_HOUR = 3600.0
_NIGHT = range(2, 6)


def _use(node: str, index: int, *, always: bool = False) -> GpuUse:
    """Idle from 02:00 to 06:00, or all week."""
    slots = []
    for slot in range(SLOTS):
        idle = _HOUR if always or slot % 24 in _NIGHT else 0.0
        slots.append(Sums(idle, _HOUR - idle, 0.0, (_HOUR - idle) / 10))
    return GpuUse(node, gpu_uuid(index), index, "NVIDIA H100 80GB HBM3", added(slots), slots)


def _weekly_report() -> Message:
    gpus = [_use("gpu-03", index) for index in range(3)] + [_use("gpu-04", 0), _use("gpu-04", 1, always=True)]
    total = added(use.total for use in gpus)
    tuesday = MONDAY + timedelta(days=1, hours=3)
    stalls = [
        Stall("gpu-03/chat", "stalled", tuesday, 1020.0, 240.0, 1860.0, 150.0, False),
        Stall("gpu-04/chat", "uncertain", tuesday, 1800.0, None, 5400.0, None, True),
    ]
    report = Report(
        since=MONDAY,
        until=NEXT_MONDAY,
        is_shadow=False,
        gpus=gpus,
        total=total,
        idle_energy=energy(total.candidate, 0.0, 0.0, PRICE),
        held_idle_energy=energy(total.held_idle, 0.0, 0.0, PRICE),
        stalls=stalls,
        free_words=Precision(31, 1, 0),
        stall_words=Precision(2, 1, 0),
        blind=1,
        blind_seconds=720.0,
        findings=findings(gpus),
        currency="EUR",
    )
    return report_card(EN, report)


REPORT = State(
    "weekly-report", "The weekly report",
    "On Monday morning, and for any days by `/gpu-report`. The map has a digit for each hour: tenths of idle time.",
    "Report: GPU-hours idle and held, energy and cost, stalls, how often we were right, what stands out, and the "
    "week as a map of digits.",
    _weekly_report,
)  # fmt: skip
