"""The state layer: finds the runner's process by pid file, systemd unit, port or executable."""

from pathlib import Path

import msgspec

from agent.runner_config import ProcessMatch, StateLayer
from agent.runner_reading import RunnerProcess
from agent.runners import proc
from agent.runners.offloop import OffLoop
from agent.runners.sources import COMMAND_SECONDS, READ_SECONDS, Unread, run_command
from wire.ticks import ProcessState


class Found(msgspec.Struct, frozen=True):
    """`read_bytes` is what the process has read so far, None where that may not be read."""

    process: RunnerProcess
    read_bytes: float | None = None


class ProcessFinder:
    """Looks the process up anew only when the one it knows is gone: searching costs more than looking."""

    def __init__(self, config: StateLayer) -> None:
        self._config, self._off_loop = config, OffLoop()
        self._known: RunnerProcess | None = None

    async def find(self) -> Found | Unread:
        try:
            if self._config.systemd_unit is not None:
                return await self._of_unit(self._config.systemd_unit)
            return await self._off_loop.read(self._look, READ_SECONDS)
        except OSError as error:  # a TimeoutError is one too
            return Unread(error.strerror or str(error))
        except LookupError as error:
            return Unread(f"the user cannot be looked up: {error}", is_config_error=True)

    def _look(self) -> Found | Unread:
        config = self._config
        if config.pid_file is not None:
            return self._of_pid_file(config.pid_file)
        known = None if self._known is None or self._known.pid is None else proc.process(self._known.pid)
        if known is not None and known.started == self._known.started:  # type: ignore[union-attr]
            return _found(known)
        found = _by_port(config.port) if config.port is not None else _by_file(config.process)
        self._known = found.process if isinstance(found, Found) else None
        return found

    def _of_pid_file(self, path: Path) -> Found | Unread:
        try:
            pid = proc.pid_in(path)
        except FileNotFoundError:
            return Found(proc.GONE)
        return Unread("the pid file holds no number") if pid is None else _found(proc.process(pid))

    async def _of_unit(self, unit: str) -> Found | Unread:
        command = ["systemctl", "show", "--property=ActiveState,MainPID,LoadState", unit]
        output = await run_command(command, COMMAND_SECONDS)
        if isinstance(output, Unread):
            return output
        shown = dict(line.split("=", 1) for line in output.decode(errors="replace").splitlines() if "=" in line)
        if shown.get("LoadState") == "not-found":
            return Unread(f"systemd knows no unit {unit}", is_config_error=True)
        pid = shown.get("MainPID", "")
        if pid.isdecimal() and int(pid) > 0:
            return await self._off_loop.read(lambda: _found(proc.process(int(pid))), READ_SECONDS)
        is_over = shown.get("ActiveState") in ("inactive", "failed")
        return Found(proc.GONE) if is_over else Unread(f"systemd says {shown.get('ActiveState') or 'nothing'}")


def _by_port(port: int) -> Found | Unread:
    pid = proc.listener_of(port)
    # Nobody listens, or we may not see who does: only the API can tell these apart.
    return Unread(f"no process is seen that listens on port {port}") if pid is None else _found(proc.process(pid))


def _by_file(match: ProcessMatch | None) -> Found | Unread:
    if match is None:
        return Unread("nothing says how to find the process", is_config_error=True)
    pids, are_hidden = proc.running(match.executable, match.user)
    if len(pids) > 1:
        return Unread(f"{len(pids)} processes run {match.executable.name}: which one is it?", is_config_error=True)
    if pids:
        return _found(proc.process(pids[0]))
    return Unread("this user may not see what others run", is_config_error=True) if are_hidden else Found(proc.GONE)


def _found(process: RunnerProcess) -> Found:
    is_gone = process.state is ProcessState.GONE or process.pid is None
    return Found(process, None if is_gone or process.pid is None else proc.read_bytes(process.pid))
