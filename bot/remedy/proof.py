"""What proves that a remedy worked: not the node's reply, but what is seen of it afterwards."""

from datetime import datetime

from msgspec.structs import replace

from bot.judge.verdict import Said
from bot.remedy.model import ProofStep, Remedy, RunnerSeen, Seen, Stage
from wire.orders import Action
from wire.remedies import OrderState

_STAGES = {
    Action.REBOOT_NODE: (Stage.REBOOTED, Stage.GPUS, Stage.HEALTHY, Stage.WORKS),
    Action.RESTART_RUNNER: (Stage.RESTARTED, Stage.WORKS),
}


def begun(remedy: Remedy, now: datetime) -> tuple[ProofStep, ...]:
    """The steps with their deadlines. Without a runner there is no work that could be proved."""
    stages = [one for one in _STAGES[remedy.action] if remedy.runner or one is not Stage.WORKS]
    loading = {Stage.WORKS: remedy.times.proof + remedy.times.loading}
    return tuple(ProofStep(one, now + loading.get(one, remedy.times.proof)) for one in stages)


def looked(remedy: Remedy, seen: Seen, now: datetime) -> tuple[ProofStep, ...]:
    """The steps after one look at the node; each counts only once those before it are there."""
    steps: list[ProofStep] = []
    is_next = True
    for step in remedy.proof:
        if step.done_at is None and is_next:
            step = _look(step, remedy, seen, now)
        is_next = step.done_at is not None
        steps.append(step)
    return tuple(steps)


def _look(step: ProofStep, remedy: Remedy, seen: Seen, now: datetime) -> ProofStep:
    missing = _MISSING[step.stage](remedy, seen)
    return replace(step, done_at=now, detail=None) if missing is None else replace(step, detail=missing)


def _not_rebooted(remedy: Remedy, seen: Seen) -> Said | None:
    return None if seen.boot_id != remedy.boot_id else Said("remedy.missing.rebooted")


def _gpus_missing(remedy: Remedy, seen: Seen) -> Said | None:
    if seen.gpus is None:
        return Said("remedy.missing.unread_gpus")
    here = sum(uuid in seen.gpus for uuid in remedy.gpus)
    if here == len(remedy.gpus):
        return None
    return Said("remedy.missing.some_gpus", {"here": str(here), "all": str(len(remedy.gpus))})


def _newly_sick(remedy: Remedy, seen: Seen) -> Said | None:
    sick = sorted(seen.sick - set(remedy.sick))
    return Said("remedy.missing.sick", {"gpus": ", ".join(sick[:4])}) if sick else None


def _not_restarted(remedy: Remedy, seen: Seen) -> Said | None:
    """A new process. Where its process is not known, the node's own word that the command ended well."""
    before, now = remedy.facts, seen.runner
    if before is None or before.pid is None:
        return None if seen.word is OrderState.DONE else Said("remedy.missing.node_done")
    if now is None or now.pid is None or (now.pid, now.started) == (before.pid, before.started):
        return Said("remedy.missing.restarted")
    return None


def _no_work(remedy: Remedy, seen: Seen) -> Said | None:
    if seen.runner is None:
        return Said("remedy.missing.runner")
    is_old = seen.boot_id == remedy.boot_id and _is_old(remedy, seen.runner)
    if seen.runner.works and not is_old:
        return None
    return Said("remedy.missing.loading" if seen.runner.is_loading else "remedy.missing.works")


def _is_old(remedy: Remedy, runner: RunnerSeen) -> bool:
    """A look at the process of before the remedy proves nothing."""
    before = remedy.facts
    return (
        before is not None and before.pid is not None and (runner.pid, runner.started) == (before.pid, before.started)
    )


_MISSING = {
    Stage.REBOOTED: _not_rebooted,
    Stage.GPUS: _gpus_missing,
    Stage.HEALTHY: _newly_sick,
    Stage.RESTARTED: _not_restarted,
    Stage.WORKS: _no_work,
}
