"""Where an empty list of processes proves nothing."""

import os
from pathlib import Path

import pytest

from agent.collectors.host import INIT_PID_NAMESPACE, process_view
from agent.reading import ProcessView
from tests.agent.build_readings import host_proc


def test_on_a_host_nothing_is_in_the_way(tmp_path: Path) -> None:
    assert process_view(proc=host_proc(tmp_path), environ={"LD_PRELOAD": ""}) == ProcessView()


@pytest.mark.parametrize(
    ("namespace", "maps", "environ", "said"),
    [
        ("pid:[4026532450]", "", {}, "hostPID"),
        (INIT_PID_NAMESPACE, "", {"LD_PRELOAD": "/usr/lib/libjemalloc.so"}, "LD_PRELOAD"),
        (INIT_PID_NAMESPACE, "7f00-7f01 r-xp 0 08:01 9 /usr/local/vgpu/libvgpu.so\n", {}, "libvgpu"),
    ],
)
def test_each_obstacle_is_told(tmp_path: Path, namespace: str, maps: str, environ: dict[str, str], said: str) -> None:
    view = process_view(proc=host_proc(tmp_path, namespace, maps), environ=environ)
    assert len(view.obstacles) == 1
    assert said in view.obstacles[0]
    assert view.error is None


def test_what_cannot_be_looked_at_is_an_obstacle(tmp_path: Path) -> None:
    assert len(process_view(proc=tmp_path, environ={}).obstacles) == 2


def test_what_could_not_be_looked_at_is_looked_at_again(tmp_path: Path) -> None:
    proc = host_proc(tmp_path)
    (proc / "self/maps").rename(proc / "self/away")
    assert len(process_view(proc=proc, environ={}).obstacles) == 1
    (proc / "self/away").rename(proc / "self/maps")
    assert process_view(proc=proc, environ={}) == ProcessView()


@pytest.mark.parametrize("value", ["1", "0", ""])
def test_mps_enumeration_makes_the_sample_an_error_whatever_its_value(tmp_path: Path, value: str) -> None:
    view = process_view(proc=host_proc(tmp_path), environ={"NVML_MPS_DEVICE_ENUMERATION": value})
    assert "remove it" in (view.error or "")


def test_the_namespace_of_this_process_is_looked_at() -> None:
    in_init = os.readlink("/proc/self/ns/pid") == INIT_PID_NAMESPACE
    assert (process_view(environ={}).obstacles == ()) == in_init


def test_a_program_is_named_by_its_executable_not_by_what_it_calls_itself(tmp_path: Path) -> None:
    proc = host_proc(tmp_path)
    (proc / "50").mkdir()
    (proc / "50/exe").symlink_to("/usr/lib/xorg/Xorg")
    (proc / "50/comm").write_text("python3\n")
    assert process_view([50, 51], proc=proc, environ={}).programs == {50: "Xorg"}
