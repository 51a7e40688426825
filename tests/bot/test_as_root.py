"""What root does at the terminal beside a bot that runs as a user of its own leaves that user's folder its own."""

import os

from click.testing import CliRunner

from bot.__main__ import cli
from demo.machine import free_ports
from tests.root import only_root

USER = 12345
COMMANDS = [
    ["init"],
    ["node", "add", "gpu-01"],
    ["bus", "print-config"],
    ["db", "migrate"],
    ["status"],
    ["stop-remedies"],
    ["rotate-signing-key"],
    ["db", "restored"],
    ["check"],
]


@only_root
def test_every_file_that_root_makes_in_the_bots_folder_is_the_bots(tmp_path):
    (folder := tmp_path / "bot").mkdir(mode=0o700)
    os.chown(folder, USER, USER)
    listen, monitor = (f"127.0.0.1:{port}" for port in free_ports(2))
    file = tmp_path / "config.yaml"
    bus = f"{{embedded: {{listen: '{listen}', monitor: '{monitor}'}}}}"
    file.write_text(f"bot: {{mode: shadow, data_dir: {folder}, bus: {bus}, metrics: {{listen: null}}}}\n")
    for command in COMMANDS:
        done = CliRunner().invoke(cli, [*command, "--config", str(file)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert [path for path in folder.rglob("*") if path.stat().st_uid != USER] == [], command
    made = {path.name for path in folder.iterdir()}
    assert {"bot.nkey", "probe.nkey", "orders.key", "bot.lock", "nodes.lock", "nodes", "tls"} <= made
    assert "gpu-oncall.sqlite" in made
