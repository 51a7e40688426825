"""Which Slurm job has which GPU, by a prolog's files or by control groups."""

from pathlib import Path

import pytest

from agent.allocation.given import Given, node_gpus
from agent.allocation.slurm import Slurm
from tests.agent.build_readings import uuid_of

GPUS = node_gpus({uuid_of(0): 0, uuid_of(1): 1}, lambda: {0: uuid_of(1), 1: uuid_of(0)})
NOBODY: frozenset[str] = frozenset()
RUNS = frozenset({"slurmd"})
V2 = "system.slice/slurmstepd.scope"


def cgroups(folder: Path, *made: str) -> Slurm:
    for path in made:
        (folder / path).mkdir(parents=True)
    return Slurm(None, folder)


def test_where_slurm_does_not_run_it_says_nothing(tmp_path: Path) -> None:
    assert cgroups(tmp_path, "system.slice/ssh.service", "user.slice").read(GPUS, NOBODY) is None


@pytest.mark.parametrize("scope", [V2, "system.slice/node01_slurmstepd.scope"])
def test_without_any_job_every_gpu_is_free(tmp_path: Path, scope: str) -> None:
    assert cgroups(tmp_path, f"{scope}/system").read(GPUS, RUNS) == Given()


def test_a_job_under_version_2_may_have_any_gpu(tmp_path: Path) -> None:
    said = cgroups(tmp_path, *(f"{V2}/job_{job}/step_0" for job in (77, 8, 9, 10, 11))).read(GPUS, RUNS)
    assert said == Given(
        error="Slurm job 8, 9, 10, 11 and more runs here, and control groups do not tell which GPUs it has: "
        "set slurm_job_dir"
    )


def test_slurmd_without_control_groups_is_an_error(tmp_path: Path) -> None:
    said = cgroups(tmp_path, "user.slice").read(GPUS, RUNS)
    assert said is not None
    assert "without control groups" in (said.error or "")


def v1(folder: Path, devices: str) -> Slurm:
    job = "slurm/uid_1000/job_77"
    slurm = cgroups(folder, f"devices/{job}/step_0", f"freezer/{job}")
    (folder / "devices" / job / "devices.list").write_text(devices)
    return slurm


def test_version_1_tells_which_device_files_a_job_may_open(tmp_path: Path) -> None:
    devices = "c 1:3 rwm\nc 195:1 rw\nc 195:255 rw\nc 136:* rwm\nb *:* m\n"
    assert v1(tmp_path, devices).read(GPUS, RUNS) == Given({uuid_of(0): "Slurm job 77"})


@pytest.mark.parametrize("devices", ["a *:* rwm\n", "c 195:* rw\n", "c *:* m\n", "something new\n"])
def test_a_job_that_may_open_any_device_may_have_any_gpu(tmp_path: Path, devices: str) -> None:
    said = v1(tmp_path, devices).read(GPUS, RUNS)
    assert said is not None
    assert "Slurm job 77 runs here" in (said.error or "")


def test_a_job_without_a_gpu_holds_none(tmp_path: Path) -> None:
    assert v1(tmp_path, "c 1:3 rwm\nc 195:255 rw\n").read(GPUS, RUNS) == Given()


def test_a_device_file_that_no_gpu_here_has_is_an_error(tmp_path: Path) -> None:
    said = v1(tmp_path, "c 195:1 rw\nc 195:6 rw\n").read(GPUS, RUNS)
    assert said == Given({uuid_of(0): "Slurm job 77"}, "a Slurm job has /dev/nvidia6, which is no known GPU here")


def by_files(folder: Path, files: dict[str, str]) -> Given | None:
    for name, text in files.items():
        (folder / name).write_text(text)
    return Slurm(folder, folder / "no cgroups").read(GPUS, NOBODY)


FILES = [
    ({}, Given()),
    ({"0": "77\n"}, Given({uuid_of(0): "Slurm job 77"})),
    ({"0": "", "1": "\n"}, Given()),
    ({"1": "77\n78\n77\n"}, Given({uuid_of(1): "Slurm job 77, 78"})),
    ({"1.0": "77\n"}, Given({uuid_of(1): "Slurm job 77"})),
    ({uuid_of(1).upper(): "77"}, Given({uuid_of(1): "Slurm job 77"})),
    ({".0.tmp": "77"}, Given()),
]


@pytest.mark.parametrize(("files", "expected"), FILES)
def test_a_prologs_files_say_which_job_has_which_gpu(tmp_path: Path, files: dict[str, str], expected: Given) -> None:
    assert by_files(tmp_path, files) == expected


@pytest.mark.parametrize("name", ["7", "gpu0", "0x0"])
def test_a_file_that_names_no_gpu_of_this_node_is_an_error(tmp_path: Path, name: str) -> None:
    said = by_files(tmp_path, {name: "77", "0": "78"})
    assert said is not None
    assert said.holders == {uuid_of(0): "Slurm job 78"}
    assert "which is no GPU here" in (said.error or "")


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    said = Slurm(tmp_path / "none", tmp_path).read(GPUS, NOBODY)
    assert said is not None
    assert "No such file" in (said.error or "")
