"""A scanner's view: no secret in anything that the programs print, in their logs, or in the process list."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml
from click.testing import CliRunner

from agent.__main__ import main
from agent.join import join
from bot.__main__ import cli
from demo.machine import Program, free_ports
from tests.nats_server import until
from wire.enrolment import decode_token

COMMANDS = Path(sys.executable).parent
SLACK = {"SLACK_BOT_TOKEN": "xoxb-hush-hush-1", "SLACK_APP_TOKEN": "xapp-hush-hush-2"}
BOT_HELPS = ((), ("run",), ("init",), ("node",), ("node", "add"), ("bus", "print-config"), ("rotate-signing-key",))
AGENT_HELPS = ((), ("join",), ("run",))


def run(*command: str) -> str:
    """What it printed, whatever became of it."""
    program, environment = str(COMMANDS / command[0]), {**os.environ, **SLACK}
    done = subprocess.run([program, *command[1:]], env=environment, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def process_list() -> str:
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)


def secrets_in(folder: Path) -> set[str]:
    """The content of every key file, without what is public in it."""
    found = set()
    for path in folder.rglob("*"):
        if path.suffix in (".nkey", ".key", ".new") or path.name == "server.pem":
            text = re.sub(r"-----BEGIN CERT.*?-----END CERTIFICATE-----", "", path.read_text(), flags=re.DOTALL)
            found |= {line for line in text.splitlines() if line and not line.startswith("-----")}
    return found


async def test_init_add_join_and_a_run_tell_no_secret(tmp_path):
    config, told = tmp_path / "config.yaml", []
    told.append(run("gpu-oncall", "init", str(tmp_path)))
    settings = yaml.safe_load(config.read_text())
    listen, monitor = free_ports(2)
    settings["bot"]["mode"] = "shadow"
    settings["bot"]["bus"]["embedded"] |= {"listen": f"127.0.0.1:{listen}", "monitor": f"127.0.0.1:{monitor}"}
    config.write_text(yaml.safe_dump(settings))
    bot = Program("bot", "bot", ["run", "--config", str(config)], tmp_path, {})
    await bot.start()
    try:
        await until(lambda: "bus connected" in bot.log.read_text(), "the bot", 30)
        line = run("gpu-oncall", "node", "add", "gpu-07", "--config", str(config))
        token = re.search(r"join (\S+)", line)[1]
        joining = ("gpu-oncall-agent", "join", token, "--state-dir")
        told += [run(*joining, str(tmp_path / "gpu-07")), run(*joining, str(tmp_path / "twice"))]
        damaged = ["-", "--state-dir", str(tmp_path / "damaged")]
        told.append(CliRunner().invoke(join, damaged, input=token[:-7]).output)
        told += [run("gpu-oncall", "bus", "check", "--all", "--config", str(config))]
        agent = ["run", "--config", str(tmp_path / "gpu-07/config.yaml")]
        node = Program("node", "agent", agent, tmp_path, {})
        await node.start()
        await until(lambda: "bus connected" in node.log.read_text(), "the node", 30)
        told.append(process_list())
        await node.stop()
        told.append(run("gpu-oncall", "node", "remove", "gpu-07", "--config", str(config)))
        before = secrets_in(tmp_path)
        told.append(run("gpu-oncall", "rotate-signing-key", "--config", str(config)))
    finally:
        await bot.stop()
    told += [CliRunner().invoke(cli, [*words, "--help"]).output for words in BOT_HELPS]
    told += [CliRunner().invoke(main, [*words, "--help"]).output for words in AGENT_HELPS]
    told += [bot.log.read_text(), node.log.read_text()]
    secrets = before | secrets_in(tmp_path) | {token, decode_token(token).join_seed, *SLACK.values()}
    assert len(secrets) >= 10
    assert "joined as node gpu-07" in told[1]
    assert "is not accepted" in told[2]
    assert [secret[:6] for secret in secrets if any(secret in text for text in told)] == []
