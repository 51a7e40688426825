"""The units, the polkit rule, and `install-service`: what systemd and polkit make of them where they are installed."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.__main__ import main as agent_command
from agent.config_file import JOINED_CONFIG
from agent.install_service import RULES, install_service, steps_of
from bot.__main__ import cli as bot_command
from bot.install_service import steps_of as bot_steps
from tests.accepted import environment_names, parses
from tests.full_disk import no_file_larger_than
from wire import service
from wire.configfile import ConfigError

SYSTEMD = Path(__file__).parents[1] / "deploy" / "systemd"
UNITS = sorted(SYSTEMD.glob("*.service"))
COMMANDS = {"gpu-oncall-agent": agent_command, "gpu-oncall": bot_command}
NOT_EXPOSED = {"gpu-oncall-agent.service": 3.0, "gpu-oncall.service": 1.5}


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"NO {program.upper()}: what it says of our files is NOT TESTED here")


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_every_line_of_a_unit(unit, tmp_path):
    needs("systemd-analyze")
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"/opt/gpu-oncall/bin/[\w-]+", str(program), unit.read_text()))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_a_unit_little_exposed(unit):
    needs("systemd-analyze")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert exposure, done.stdout + done.stderr
    assert float(exposure[1]) <= NOT_EXPOSED[unit.name]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_exists_with_options_that_it_takes_and_not_as_root(unit):
    lines = settings(unit)
    for line in [*lines.get("ExecStartPre", []), *lines["ExecStart"]]:
        program, *arguments = line.split()
        parses(COMMANDS[Path(program).name], arguments)
    assert lines["User"] == [unit.stem]
    assert lines["StateDirectory"] == [unit.stem]
    assert lines["NoNewPrivileges"] == ["yes"]


def test_what_the_agent_must_see_is_not_hidden_from_it():
    """Each of these would make somebody's process invisible, and so a GPU look free, or hide the GPUs."""
    lines = settings(SYSTEMD / "gpu-oncall-agent.service")
    hiding = {
        "ProtectProc",
        "ProcSubset",
        "PrivateUsers",
        "PrivatePIDs",
        "PrivateDevices",
        "DevicePolicy",
        "PrivateTmp",
    }
    assert hiding & lines.keys() == set()


def test_the_secrets_that_the_bots_unit_names_are_those_that_it_reads():
    text = (SYSTEMD / "gpu-oncall.service").read_text()
    assert set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+(?==)", text)) <= environment_names()


# --- the polkit rule, in the real polkit ----------------------------------------------------------------------------

BUS = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>custom</type><listen>unix:path={bus}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/><allow user="*"/>
</policy></busconfig>
"""
# In namespaces of its own: nothing of this machine changes, and all of it ends together.
POLKIT = """\
set -e
cp /etc/passwd passwd
echo "gpu-oncall-agent:x:64242:64242::/:/usr/sbin/nologin" >> passwd
mount --bind passwd /etc/passwd
mount -t tmpfs none /etc/polkit-1
mkdir /etc/polkit-1/rules.d
cp rules /etc/polkit-1/rules.d/50-ours.rules
chmod -R a+rX /etc/polkit-1
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$BUS
asked() { dbus-send --bus=$DBUS_SYSTEM_BUS_ADDRESS --print-reply --dest=org.freedesktop.DBus / "$@" 2>&1; }
dbus-daemon --config-file=bus.conf --nofork &
until asked org.freedesktop.DBus.ListNames > /dev/null; do sleep 0.05; done
/usr/lib/polkit-1/polkitd --no-debug &
until asked org.freedesktop.DBus.NameHasOwner string:org.freedesktop.PolicyKit1 | grep -q "boolean true"; do
    sleep 0.05
done
setpriv --reuid=64242 --regid=64242 --clear-groups sleep 300 & agent=$!
setpriv --reuid=65534 --regid=65534 --clear-groups sleep 300 & other=$!
until [ "$(ps -o comm= -p $other)" = sleep ] && [ "$(ps -o comm= -p $agent)" = sleep ]; do sleep 0.05; done
may() {
    if pkcheck --action-id "$3" --process "$2" ${4:+--detail verb "$4" --detail unit "$5"} >&2; then
        echo "$1 $3 $4 $5"
    fi
}
for who in agent other; do
    for action in reboot reboot-multiple-sessions set-wall-message reboot-ignore-inhibit power-off halt; do
        may $who ${!who} org.freedesktop.login1.$action
    done
    for verb in restart stop start; do
        for unit in vllm.service ssh.service; do
            may $who ${!who} org.freedesktop.systemd1.manage-units $verb $unit
        done
    done
    may $who ${!who} org.freedesktop.systemd1.manage-unit-files
done
"""


def allowed(rules: str, folder: Path) -> list[str]:
    """What polkit lets the agent's user, and another user, do."""
    for program in ("pkcheck", "dbus-daemon", "dbus-send", "setpriv", "unshare", "ps"):
        needs(program)
    if os.geteuid() != 0 or not Path("/usr/lib/polkit-1/polkitd").exists():
        pytest.skip("NO POLKITD, OR NOT ROOT: what the real polkit makes of our rule is NOT TESTED here")
    (folder / "rules").write_text(rules)
    bus = Path("/run") / f"gpu-oncall-test-{os.getpid()}"
    (folder / "bus.conf").write_text(BUS.format(bus=bus))
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", POLKIT],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "BUS": str(bus)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    bus.unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return [line.strip() for line in done.stdout.splitlines()]


def test_the_rule_as_it_lies_there_allows_nothing(tmp_path):
    assert allowed((SYSTEMD / "gpu-oncall-agent.rules").read_text(), tmp_path) == []


def test_the_installed_rule_allows_the_agents_user_a_reboot_and_a_restart_of_one_unit_and_nothing_else(tmp_path):
    steps = steps_of(PROGRAM, JOINED_CONFIG, allow_reboot=True, allow_restart=["vllm.service"])
    assert allowed(written(steps)[RULES], tmp_path) == [
        "agent org.freedesktop.login1.reboot",
        "agent org.freedesktop.login1.reboot-multiple-sessions",
        "agent org.freedesktop.login1.set-wall-message",
        "agent org.freedesktop.systemd1.manage-units restart vllm.service",
    ]


# --- install-service ------------------------------------------------------------------------------------------------

PROGRAM = Path("/opt/gpu-oncall/bin/gpu-oncall-agent")


def written(steps: list[service.Step]) -> dict[Path, str]:
    return {step.path: step.text for step in steps if isinstance(step, service.Write)}


def test_the_agents_installation_is_the_unit_of_the_docs_and_nothing_that_may_reboot():
    steps = steps_of(PROGRAM, JOINED_CONFIG)
    unit = service.UNITS / "gpu-oncall-agent.service"
    assert written(steps) == {unit: (SYSTEMD / "gpu-oncall-agent.service").read_text()}
    assert [step.command for step in steps[-2:]] == [
        ("systemctl", "daemon-reload"),
        ("systemctl", "enable", "--now", "gpu-oncall-agent.service"),
    ]


def test_the_bots_installation_is_the_unit_of_the_docs():
    steps = bot_steps(Path("/opt/gpu-oncall/bin/gpu-oncall"), Path("/etc/gpu-oncall/config.yaml"))
    assert written(steps) == {service.UNITS / "gpu-oncall.service": (SYSTEMD / "gpu-oncall.service").read_text()}


def test_a_path_with_odd_characters_stays_one_word_for_systemd(tmp_path):
    assert service.exec_line("/opt/a b/run", '--config=%h$X"') == '"/opt/a b/run" "--config=%%h$$X\\""'


@pytest.mark.parametrize("unit", ["vllm", "vllm.service; reboot", '"];//.service', "../x.service", ""])
def test_a_restart_of_what_is_no_unit_is_refused(unit):
    with pytest.raises(ConfigError, match="wants a unit's full name"):
        steps_of(PROGRAM, JOINED_CONFIG, allow_restart=[unit])


def test_a_step_that_fails_is_told_and_ends_the_installation(tmp_path):
    file = tmp_path / "unit"
    steps = [
        service.Write(file, "text\n"),
        service.Run(("sh", "-c", "echo no such user >&2; exit 6")),
        service.Run(("x",)),
    ]
    done = []
    with pytest.raises(service.ServiceError, match="no such user"):
        done.extend(service.carried_out(steps))
    assert file.read_text() == "text\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    with pytest.raises(service.ServiceError, match="no-such-program"):
        list(service.carried_out([service.Run(("no-such-program",))]))


def test_a_file_that_cannot_be_written_is_told_and_leaves_nothing_half_written(tmp_path):
    with no_file_larger_than(0), pytest.raises(service.ServiceError, match="unit cannot be written: File too large"):
        list(service.carried_out([service.Write(tmp_path / "unit", "text\n")]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("agent: {state_dir: /srv/x}\n", "the service keeps its state in /var/lib/gpu-oncall-agent"),
        ("agent: {windw: 5m}\n", "did you mean `window`"),
    ],
)
def test_a_config_that_does_not_fit_is_told(tmp_path, text, complaint):
    (tmp_path / "config.yaml").write_text(text)
    done = CliRunner().invoke(install_service, ["--dry-run", "--config", str(tmp_path / "config.yaml")])
    assert done.exit_code == 2
    assert complaint in done.output


def test_a_config_that_the_services_user_could_not_read_is_told(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("agent: {}\n")
    file.chmod(0o600)
    with pytest.raises(service.ServiceError, match=r"lets nobody in|chmod 644"):
        steps_of(PROGRAM, file)


# In a mount namespace whose /etc is a copy that is thrown away, with a systemctl that only writes down what it is told.
MACHINE = """\
set -e
mount -t tmpfs none "$PWD/layers"
for part in etc root; do
    mkdir layers/$part layers/$part-work
    mount -t overlay overlay -o lowerdir=/$part,upperdir=$PWD/layers/$part,workdir=$PWD/layers/$part-work /$part
done
chmod 755 /root "$PWD"
mount -t tmpfs none /run
mkdir -p /run/systemd/system /etc/systemd/system /etc/polkit-1/rules.d /etc/gpu-oncall
printf 'agent: {node: gpu-01}\nbot: {}\n' > /etc/gpu-oncall/config.yaml
chmod -R a+rX /etc/gpu-oncall
"$BIN/python" -m agent install-service --dry-run > dry
"$BIN/python" -m agent install-service --allow-reboot
"$BIN/python" -m agent install-service
"$BIN/python" -m bot install-service
id -nu gpu-oncall-agent; id -nu gpu-oncall
cat /etc/systemd/system/gpu-oncall-agent.service > agent.unit
cat /etc/systemd/system/gpu-oncall.service > bot.unit
"""


def test_it_installs_user_unit_and_rule_on_a_machine_says_all_of_it_and_again_is_no_harm(tmp_path):
    needs("unshare")
    if os.geteuid() != 0:
        pytest.skip("NOT ROOT: a real installation is NOT TESTED here")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, timeout=60).returncode != 0:
        pytest.skip("NO MOUNT NAMESPACE (a container, or chroot): a real installation is NOT TESTED here")
    (tmp_path / "layers").mkdir()
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/told\n')
    systemctl.chmod(0o755)
    bin_folder = Path(sys.executable).parent
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", MACHINE],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "BIN": str(bin_folder), "PYTHONPATH": str(SYSTEMD.parents[1])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("useradd --system") == 2, "each user once"
    assert f"kept {RULES}" in done.stdout
    assert "missing: /etc/gpu-oncall/bot.env" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["gpu-oncall-agent", "gpu-oncall"]
    assert (
        f"ExecStart={bin_folder}/gpu-oncall-agent run --config /etc/gpu-oncall/config.yaml"
        in (tmp_path / "agent.unit").read_text()
    )
    assert f"ExecStartPre={bin_folder}/gpu-oncall init --config" in (tmp_path / "bot.unit").read_text()
    assert (tmp_path / "told").read_text().splitlines().count("enable --now gpu-oncall-agent.service") == 2
    assert "write /etc/systemd/system/gpu-oncall-agent.service\n    # Put here" in (tmp_path / "dry").read_text()


def test_without_systemd_or_root_it_says_so(tmp_path):
    if Path("/run/systemd/system").is_dir() and os.geteuid() == 0:
        pytest.skip("this machine is run by systemd")
    with pytest.raises(service.ServiceError, match="--dry-run"):
        service.require_systemd()
