"""What systemd hears, on a real datagram socket."""

import asyncio
import socket

from wire.supervised import supervised


async def heard_by(path, environment, why_not, count):
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.setblocking(False)
        systemd.bind(path)
        task = asyncio.create_task(supervised(why_not, environment))
        try:
            async with asyncio.timeout(30):
                return [(await loop.sock_recv(systemd, 1000)).decode() for _ in range(count)]
        finally:
            task.cancel()


async def test_systemd_hears_that_we_are_ready_and_that_we_work(tmp_path):
    path = str(tmp_path / "notify")
    environment = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000"}
    assert await heard_by(path, environment, lambda: None, 3) == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]


async def test_while_we_do_not_work_systemd_hears_why_once_and_its_watchdog_may_bite(tmp_path):
    path, answers = str(tmp_path / "notify"), iter(["it hangs", "it hangs", None])
    environment = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000"}
    said = await heard_by(path, environment, lambda: next(answers, None), 4)
    assert said == ["READY=1", "STATUS=it hangs", "WATCHDOG=1\nSTATUS=works", "WATCHDOG=1"]


async def test_the_abstract_namespace_is_understood():
    name = "gpu-oncall-test-notify"
    said = await heard_by(f"\0{name}", {"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "20000"}, lambda: None, 2)
    assert said == ["READY=1", "WATCHDOG=1"]


async def test_where_no_systemd_waits_it_ends_at_once_and_a_lost_socket_is_told(tmp_path, caplog):
    await supervised(lambda: None, {})
    await supervised(lambda: None, {"NOTIFY_SOCKET": str(tmp_path / "gone")})
    assert "systemd does not hear us" in caplog.text
