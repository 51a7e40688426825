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
    gpu-oncall-agent install-service --allow-reboot
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
for user in nobody gpu-oncall gpu-oncall-agent; do
    say "$user powers off" "setpriv --reuid=$user --regid=$(id -gn $user) --clear-groups systemctl poweroff; echo \\$?"
done
say "nobody reboots" "setpriv --reuid=nobody --regid=nogroup --clear-groups systemctl reboot; echo \\$?"
setpriv --reuid=gpu-oncall-agent --regid=gpu-oncall-agent --clear-groups systemctl reboot
"""
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
        "agent": {"node": "gpu-01", "bus": {"servers": [f"tls://{bus}"]}, "metrics": {"listen": agent}},
    }
    (root / "etc/gpu-oncall").mkdir()
    (root / "etc/gpu-oncall/config.yaml").write_text(yaml.safe_dump(document))
    (root / "story").mkdir()
    (root / "story/story.sh").write_text(STORY)
    units = root / "etc/systemd/system"
    (units / "story.service").write_text(UNIT)
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/story.service").symlink_to("../story.service")


def boot(root: Path) -> tuple[str, dict[str, str]]:
    """Until the machine ends by itself; the console, and what the story says."""
    command = ["systemd-nspawn", "--register=no", "--keep-unit", "--quiet", "--boot", "-D", root]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=BOOT_SECONDS, check=False)
    told = sorted((root / "story").glob("told.*"))[-1].read_text()
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
    for user in ("nobody", "gpu-oncall", "gpu-oncall-agent"):
        assert said[f"{user} powers off"].endswith(" 1"), said[f"{user} powers off"]
    assert "authentication required" in said["nobody reboots"]
    assert "Rebooting" in console
    console, said = boot(machine)
    services_are_well(said)
    assert "Rebooting" not in console
