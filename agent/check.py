"""The command `gpu-oncall-agent check`: may this node be judged, and may its words reach the bot?"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from agent.allocation.allocations import allocations_of
from agent.clock import Clock
from agent.collectors.host import hidden_owners, process_view
from agent.config import AgentConfig, Mode
from agent.config_file import find_config
from agent.findings import (
    Finding,
    Level,
    about_allocation,
    about_baseline,
    about_gpus,
    about_kernel_log,
    about_known_gpus,
    about_owners,
    about_process_view,
    about_reading,
)
from agent.known_gpus import KnownGpus, KnownGpusError
from agent.once import collector_of, config_or_exit, is_recording, printable
from agent.read_sample import judge_live, rule_settings
from agent.reading import KnownGpu, Sweep
from agent.release import agent_runs
from agent.releases import ReleaseError, Releases
from agent.remedies.ready import about_remedies
from wire.addresses import ENCRYPTED
from wire.configfile import ConfigError
from wire.credentials import read_seed
from wire.tls import client_context

EXIT_PROBLEM = 1
SERVER_DEADLINE = timedelta(seconds=3)
_NO_KEY = (
    "gpu-oncall init makes one where bot and agent share a machine, gpu-oncall-agent join on any other; "
    "where it lies elsewhere, set agent.bus.credentials"
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A JSON list of findings, for scripts.")
@click.option("--config", type=click.Path(path_type=Path), help="config.yaml; without any file: the defaults.")
def check(as_json: bool, config: Path | None) -> None:
    """Say what is read, from where, what stands in the way and what to do. Writes nothing.

    Each finding: what was found, why it matters, what to do.
    Exit status: 0 all fine or only advice, 1 something stands in the way, 2 usage or config.
    """
    settings = config_or_exit(config)
    findings = [*_about_config(settings, find_config(config)), *asyncio.run(_about_node(settings))]
    findings += asyncio.run(_about_kernel_log(settings))
    findings += [*_about_state_dir(settings), _about_agent(settings), *asyncio.run(_about_bus(settings))]
    findings += asyncio.run(about_remedies(settings))
    click.echo(_as_json(findings) if as_json else _as_text(findings))
    if any(finding.level is Level.PROBLEM for finding in findings):
        raise SystemExit(EXIT_PROBLEM)


def _about_config(config: AgentConfig, path: Path | None) -> Iterator[Finding]:
    source = "no config file was found: these are the defaults" if path is None else f"read from {path}"
    yield Finding(Level.OK, "config", f"{source}; node {config.node}, collector {config.collector}")
    if config.mode is Mode.DEMO:
        yield Finding(Level.ADVICE, "config", "mode is demo: lower bounds are lifted", "never use it on a real node")


async def _about_node(config: AgentConfig) -> list[Finding]:
    collector = collector_of(config)
    recorded = is_recording(collector)
    now = asyncio.get_running_loop().time
    began = now()
    try:
        sweep = await collector.sweep()
    finally:
        took_seconds = now() - began
        await collector.close()
    findings = [] if recorded else [*about_process_view(process_view()), about_owners(hidden_owners())]
    findings += [*about_reading(config.collector, sweep, took_seconds), *_about_sample(config, sweep, recorded)]
    return findings if recorded else [*findings, *await _about_allocation(config, sweep)]


async def _about_allocation(config: AgentConfig, sweep: Sweep) -> list[Finding]:
    """Only with GPUs that it could be about."""
    if not sweep.gpus:
        return []
    allocations = allocations_of(config)
    try:
        return [about_allocation(await allocations.read({gpu.uuid: gpu.index for gpu in sweep.gpus}))]
    finally:
        allocations.close()


def _about_sample(config: AgentConfig, sweep: Sweep, recorded: bool) -> Iterator[Finding]:
    known = None if recorded else KnownGpus(config.state_dir)
    settings = rule_settings(config)
    sample = judge_live(sweep, known, settings, remember=False)
    yield from about_gpus(sweep, sample)
    yield from about_baseline(settings.baseline, sweep, sample)
    if known is not None and (kept := _known_or_none(known)) is not None:
        yield about_known_gpus(kept)


def _known_or_none(known: KnownGpus) -> Mapping[str, KnownGpu] | None:
    """None where the file cannot be used: the sample's error has said it."""
    try:
        return known.load()
    except KnownGpusError:
        return None


async def _about_kernel_log(config: AgentConfig) -> list[Finding]:
    if not config.runners:
        return []
    from agent.runners.witness import KernelLog  # as in run: a node without runners loads none of it

    kernel_log = KernelLog()
    try:
        await kernel_log.read(asyncio.get_running_loop().time())
        return [about_kernel_log(kernel_log.why_unreadable)]
    finally:
        kernel_log.close()


def _about_state_dir(config: AgentConfig) -> Iterator[Finding]:
    folder = next(path for path in (config.state_dir, *config.state_dir.parents) if path.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            Level.PROBLEM,
            "state_dir",
            f"{config.state_dir} cannot be written by this user",
            "run this as the agent's user, or set agent.state_dir to a folder that it may write",
        )
        return
    made = "" if folder == config.state_dir else " (it will be made)"
    yield Finding(Level.OK, "state_dir", f"{config.state_dir} can be written{made}")


def _about_agent(config: AgentConfig) -> Finding:
    try:
        current = Releases(config.state_dir, Clock()).current()
    except ReleaseError as error:
        return Finding(Level.PROBLEM, "release", str(error), "run gpu-oncall-agent release --end")
    if current is not None:
        return Finding(Level.ADVICE, "release", current.sentence(), "wait, or run gpu-oncall-agent release --end")
    if agent_runs(config.state_dir):
        return Finding(Level.OK, "agent", f"an agent runs in {config.state_dir}")
    todo = "start it: gpu-oncall-agent run, or its service"
    return Finding(Level.ADVICE, "agent", f"no agent runs in {config.state_dir} now", todo)


async def _about_bus(config: AgentConfig) -> list[Finding]:
    """The key, and whether a server is there. Whether it takes the key is seen in the agent's log."""
    try:
        read_seed(config.key_file())
    except ConfigError as error:
        return [Finding(Level.PROBLEM, "bus", str(error), _NO_KEY)]
    servers = config.bus.servers
    if any(server.startswith(f"{ENCRYPTED}:") for server in servers):
        try:
            client_context(config.ca_file())
        except ConfigError as error:
            return [Finding(Level.PROBLEM, "bus", str(error), "join this node: gpu-oncall-agent join")]
    findings = [Finding(Level.OK, "bus", f"the key {config.key_file()} can be read; servers: {len(servers)}")]
    if not any([await _answers(server, config.ca_file()) for server in servers]):
        text = f"no server answers at {' or '.join(_place(server) for server in servers)}"
        findings.append(Finding(Level.ADVICE, "bus", text, "start the bot or its server, or set agent.bus.servers"))
    return findings


def _place(server: str) -> str:
    parts = urlsplit(server)
    return f"{parts.hostname}:{parts.port}"


async def _answers(server: str, ca_file: Path) -> bool:
    """A NATS server speaks first, within TLS where the address says so."""
    parts = urlsplit(server)
    try:
        context = client_context(ca_file) if parts.scheme == ENCRYPTED else None
        async with asyncio.timeout(SERVER_DEADLINE.total_seconds()):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
            try:
                return (await reader.read(4)).startswith(b"INFO")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


def _as_json(findings: list[Finding]) -> str:
    documents = [{**msgspec.to_builtins(finding), "why": finding.why} for finding in findings]
    return msgspec.json.format(msgspec.json.encode(documents), indent=2).decode()


def _as_text(findings: list[Finding]) -> str:
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.level.upper():8} {finding.topic}: {finding.text}")
        if finding.level is not Level.OK:
            lines.append(f"{'':8} why: {finding.why}")
        if finding.todo:
            lines.append(f"{'':8} -> {finding.todo}")
    problems = sum(finding.level is Level.PROBLEM for finding in findings)
    lines.append("Nothing stands in the way." if not problems else f"In the way: {problems}.")
    return "\n".join(map(printable, lines))
