"""A Debian that systemd boots: both services as `install-service` makes them, and a reboot that polkit allows."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.images import debian, require_tools, run
from tests.nats_server import free_port
from tests.packages import ROOT, build

pytestmark = pytest.mark.slow  # minutes: it fetches a system and all dependencies

BOOT_SECONDS = 300

# Runs when the machine is up. Everything that it prints is what the test looks at.
STORY = """\
exec > /story/told.$(ls /story | grep -c told) 2>&1
cd /
export PATH=/opt/gpu-oncall/bin:$PATH
say() { echo "$1: $(eval "$2" 2>&1 | tr '\\n' ' ' | sed 's/ *$//')"; }
main_pid() { systemctl show -P MainPID $1; }
well() { n=0; until $1 healthy || [ $n -gt 60 ]; do n=$((n+1)); sleep 1; done; }
if [ ! -e /story/told.1 ]; then
    gpu-oncall install-service
    token=$(gpu-oncall node add gpu-01 | sed -n 's/.*gpu-oncall-agent join //p')
    gpu-oncall-agent join "$token"
    gpu-oncall-agent install-service --allow-reboot --allow-restart work.service
fi
for program in gpu-oncall gpu-oncall-agent; do
    well $program > /dev/null 2>&1
    say "$program is" "systemctl is-active $program"
    say "$program says" "$program healthy"
    say "$program runs as" "stat -c %U /proc/$(main_pid $program)"
    say "$program may gain" "grep NoNewPrivs /proc/$(main_pid $program)/status"
    say "$program keeps" "stat -c '%U %a' /var/lib/$program"
    say "$program started again" "systemctl show -P NRestarts $program"
done
say "node" "gpu-oncall node list"
if [ -e /story/told.1 ]; then
    systemctl poweroff
    exit
fi
token=$(gpu-oncall node rotate gpu-01 | sed -n 's/.*gpu-oncall-agent join //p')
gpu-oncall-agent join "$token"
say "the new key is of" "stat -c '%U %a' /var/lib/gpu-oncall-agent/node.nkey"
for user in nobody gpu-oncall gpu-oncall-agent; do
    say "$user powers off" "setpriv --reuid=$user --regid=$(id -gn $user) --clear-groups systemctl poweroff; echo \\$?"
done
say "nobody reboots" "setpriv --reuid=nobody --regid=nogroup --clear-groups systemctl reboot; echo \\$?"
# The agent's own remedies, in the agent's own unit: nothing of its sandbox may stand in their way.
cd /etc/systemd/system
sed -e 's|^ExecStart=.*|ExecStart=/opt/gpu-oncall/bin/python /story/act.py|' -e 's/^Type=.*/Type=oneshot/' \\
    -e '/^WatchdogSec=/d' -e '/^Restart/d' gpu-oncall-agent.service > /run/systemd/system/act.service
systemctl daemon-reload
systemctl start work.service
systemctl start act.service || systemctl poweroff
"""
ACT = """\
import asyncio, os, subprocess, sys
from agent.config import load
from agent.config_file import find_config
from agent.remedies.act import reboot, restart
from agent.remedies.host_lock import HostLock
from agent.remedies.ready import about_remedies

sys.stdout = open("/var/lib/gpu-oncall-agent/acted", "w", buffering=1)

def pid():
    return subprocess.run(["systemctl", "show", "-P", "MainPID", "work"], capture_output=True, text=True).stdout

async def main():
    config = load(find_config(None))
    remedies = config.remedies
    for number, finding in enumerate(await about_remedies(config)):
        print(f"remedy {number}: {finding.level} {finding.text}")
    lock = HostLock(remedies.lock_file)
    lock.take()
    before = pid()
    ended = await restart(remedies.restart_runner["chat"], os.environ)
    print("restart:", ended.state, ended.detail, "new" if pid() != before else "old")
    ended = await restart(type(remedies.restart_runner["chat"])(systemd_unit="dbus.service"), os.environ)
    print("restart of another:", ended.state)
    ended = await reboot(remedies.reboot_node, "a test", os.environ)
    print("reboot:", ended.state, ended.detail)

asyncio.run(main())
"""
WORK = "[Service]\nExecStart=/bin/sleep infinity\n"
UNIT = """\
[Unit]
After=systemd-logind.service dbus.service network.target
[Service]
ExecStart=/bin/bash /story/story.sh
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Path:
    """Its root folder: installed as docs/install-systemd.md says, with the requirements that are pinned."""
    require_tools("debootstrap", "systemd-nspawn", "chroot")
    root = tmp_path_factory.mktemp("machine") / "root"
    debian(root)
    (root / "etc/resolv.conf").write_text(Path("/etc/resolv.conf").read_text())
    packages = root / "packages"
    build(root.parent / "source", packages)
    apt = "DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends"
    pip = "/opt/gpu-oncall/bin/pip install --quiet"
    lines = [f"{apt} systemd systemd-sysv dbus polkitd", "python3 -m venv /opt/gpu-oncall"]
    for name in ("agent", "bot"):
        (packages / f"{name}.txt").write_text((ROOT / "requirements" / f"{name}.txt").read_text())
        lines.append(f"{pip} --require-hashes --only-binary :all: -r /packages/{name}.txt")
    run("chroot", root, "sh", "-ec", "\n".join([*lines, f"{pip} --no-deps --no-index /packages/*.whl"]))
    _configure(root)
    return root


def _configure(root: Path) -> None:
    bus, monitor, bot, agent = (f"127.0.0.1:{free_port()}" for _ in range(4))
    embedded = {"embedded": {"listen": bus, "monitor": monitor}}
    document = {
        "bot": {"mode": "shadow", "bus": embedded, "metrics": {"listen": bot}},
        "agent": {
            "node": "gpu-01",
            "bus": {"servers": [f"tls://{bus}"]},
            "metrics": {"listen": agent},
            "runners": [{"name": "chat", "preset": "vllm", "url": "http://127.0.0.1:1"}],
            "remedies": {"restart_runner": {"chat": {"systemd_unit": "work.service"}}, "reboot_node": {}},
        },
    }
    (root / "etc/gpu-oncall").mkdir()
    (root / "etc/gpu-oncall/config.yaml").write_text(yaml.safe_dump(document))
    (root / "story").mkdir()
    (root / "story/story.sh").write_text(STORY)
    (root / "story/act.py").write_text(ACT)
    units = root / "etc/systemd/system"
    (units / "work.service").write_text(WORK)
    (units / "story.service").write_text(UNIT)
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/story.service").symlink_to("../story.service")


def boot(root: Path) -> tuple[str, dict[str, str]]:
    """Until the machine ends by itself; the console, and what the story says."""
    patience = ["timeout", "--kill-after=60", str(BOOT_SECONDS)]  # SIGTERM lets it power the machine off
    command = [*patience, "systemd-nspawn", "--register=no", "--keep-unit", "--quiet", "--boot", "-D", root]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    told = sorted((root / "story").glob("told.*"))[-1].read_text()
    acted = root / "var/lib/gpu-oncall-agent/acted"
    told += acted.read_text() if acted.exists() else ""
    print(told)
    return done.stdout + done.stderr, dict(line.split(": ", 1) for line in told.splitlines() if ": " in line)


def services_are_well(said: dict[str, str]) -> None:
    for program in ("gpu-oncall", "gpu-oncall-agent"):
        assert said[f"{program} is"] == "active"
        assert said[f"{program} says"] == "ok"
        assert said[f"{program} runs as"] == program
        assert said[f"{program} keeps"] == f"{program} 700"
        assert said[f"{program} may gain"] == "NoNewPrivs:\t1"
        assert said[f"{program} started again"] == "0"
    assert said["node"].split() == ["gpu-01", "in"]


def test_services_start_join_and_come_back_after_a_reboot_that_the_agents_user_alone_may_ask_for(machine):
    console, said = boot(machine)
    services_are_well(said)
    assert said["the new key is of"] == "gpu-oncall-agent 600"
    for user in ("nobody", "gpu-oncall", "gpu-oncall-agent"):
        assert said[f"{user} powers off"].endswith(" 1"), said[f"{user} powers off"]
    assert "authentication required" in said["nobody reboots"]
    assert not [told for name, told in said.items() if name.startswith("remedy ") and told.startswith("problem")]
    assert said["restart"] == "done systemctl ended well new"
    assert said["restart of another"] == "failed"
    assert said.get("reboot") in (None, "done systemctl ended well")  # None: the reboot was faster than its word
    assert "Rebooting" in console
    console, said = boot(machine)
    services_are_well(said)
    assert "Rebooting" not in console
