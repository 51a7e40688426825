"""Every recorded case, from what the driver printed to the verdict, through the collectors that run on a node."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.cgroups import Owner
from agent.collectors import Collector
from agent.collectors.host import process_view
from agent.collectors.nvidia_smi import NvidiaSmiCollector
from agent.collectors.nvml import NvmlCollector
from agent.known_gpus import KnownGpus
from agent.processes import read_owner
from agent.read_sample import take_sample
from agent.verdicts import RuleSettings, Sample
from tests.agent.build_readings import host_proc, idle_gpu
from tests.fake_nvidia_smi import Answer, FakeNvidiaSmi
from tests.fake_nvml import FakeGpu, FakeNvml, FakeProcess, fake_uuid
from wire.messages import Verdict

CASES = Path(__file__).parents[1] / "cases/nvidia_smi"
READING_CASES = sorted(CASES.glob("[01]*.txt"))
OWNER_CASES = sorted(CASES.glob("2*.txt"))
EXPECTED = {"yes": Verdict.CANDIDATE, "no": Verdict.HELD, "unknown": Verdict.UNKNOWN}
CALLS = {
    "util": "nvmlDeviceGetUtilizationRates",
    "mem_v2": "nvmlDeviceGetMemoryInfo_v2",
    "mem_v1": "nvmlDeviceGetMemoryInfo",
    "procs": "nvmlDeviceGetComputeRunningProcesses_v3",
}


@dataclass
class Case:
    expect: dict[str, str]
    blocks: dict[str, str] = field(default_factory=dict)
    gpus: list[dict[str, Any]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.blocks.get("env", "").splitlines())


def read_case(path: Path) -> Case:
    text = path.read_bytes().decode("utf-8", errors="surrogateescape")
    head, *blocks = ("\n" + text).split("\n### ")
    line = next(line for line in head.splitlines() if line.startswith("# expect: "))
    case = Case(dict(item.split("=") for item in line.removeprefix("# expect: ").split()))
    for block in blocks:
        name, _, body = block.partition("\n")
        if name == "nvml":
            case.gpus.append(json.loads(body))
        elif body and not path.name.startswith("097"):  # the case of an output that was cut in mid-line
            case.blocks[name] = body.removesuffix("\n") + "\n"
        else:
            case.blocks[name] = body
    if path.name.startswith("103"):  # the line endings that this case is about do not survive in a text file
        case.blocks["stdout gpu"] = case.blocks["stdout gpu"].replace("\n", "\r\n")
    return case


def smi_answer(case: Case, query: str) -> Answer:
    return Answer(
        stdout=case.blocks.get(f"stdout {query}", ""),
        stderr=case.blocks.get(f"stderr {query}", ""),
        status=int(case.blocks.get(f"exit {query}", "0")),
        hang=f"timeout {query}" in case.blocks,
    )


def fake_gpu(recorded: dict[str, Any]) -> FakeGpu:
    codes = {CALLS[key]: code for key, code in recorded.get("rc", {}).items() if isinstance(code, int)}
    memory = recorded["mem_v2"] or {"total": 0, "reserved": 0, "used": 0}
    processes = tuple(FakeProcess(process["pid"], process["mem"]) for process in recorded["procs"] or ())
    return FakeGpu(
        recorded["uuid"],
        utilization=recorded["util"] or 0,
        compute=processes,
        rc=codes,
        used_v1=recorded.get("mem_v1", {}).get("used", 0),
        **memory,
    )


def collector_for(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Collector:
    deadline = timedelta(seconds=0.6 if any(name.startswith("timeout") for name in case.blocks) else 30)
    if case.gpus or "timeout nvml" in case.blocks:
        hang = tuple(CALLS[call.strip()] for call in case.blocks.get("timeout nvml", "").splitlines())
        gpus = [fake_gpu(recorded) for recorded in case.gpus] or [FakeGpu(fake_uuid(0), hang=hang)]
        absent = {CALLS[key] for gpu in case.gpus for key, code in gpu.get("rc", {}).items() if isinstance(code, str)}
        set_env(monkeypatch, FakeNvml(folder, gpus, missing=absent).env)
        return NvmlCollector(deadline, grace=timedelta(seconds=0.2))
    smi = FakeNvidiaSmi(folder)
    smi.answer(smi_answer(case, "gpu"), smi_answer(case, "apps"))
    set_env(monkeypatch, smi.env)
    return NvidiaSmiCollector(deadline, grace=timedelta(seconds=0.2))


def set_env(monkeypatch: pytest.MonkeyPatch, values: dict[str, str]) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value)


async def judge(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Sample:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    facts = case.env
    set_env(monkeypatch, {name: value for name, value in facts.items() if name.isupper() or "_" in name})
    proc = host_proc(folder, facts["pidns"]) if "pidns" in facts else host_proc(folder)
    known = KnownGpus(folder / "state")
    if "expected" in facts:
        known.replace_all(idle_gpu(index, uuid=uuid) for index, uuid in enumerate(facts["expected"].split(",")))
    collector = collector_for(case, folder, monkeypatch)
    try:
        return await take_sample(collector, known, RuleSettings(), read_view=partial(process_view, proc=proc))
    finally:
        await collector.close()


def test_no_recorded_case_is_left_out() -> None:
    assert len(READING_CASES) == 87
    assert len(OWNER_CASES) == 11
    assert len(list(CASES.glob("[0-9]*.txt"))) == 98


@pytest.mark.parametrize("path", READING_CASES, ids=lambda path: path.stem)
async def test_a_recorded_case_is_judged_as_its_author_expects(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = read_case(path)
    sample = await judge(case, tmp_path, monkeypatch)
    if case.expect == {"*": "error"}:
        assert sample.errors
        assert all(gpu.verdict is Verdict.UNKNOWN for gpu in sample.gpus)
        return
    assert sample.errors == ()
    verdicts = {gpu.uuid: gpu.verdict for gpu in sample.gpus}
    assert verdicts == {uuid: EXPECTED[word] for uuid, word in case.expect.items()}
    assert all(gpu.reasons for gpu in sample.gpus)


def owner_in_the_words_of_the_cases(owner: Owner) -> str:
    if owner.pod_uid is not None:
        return f"pod:{owner.pod_uid}"
    if owner.job is not None:
        return f"slurm:{owner.job}"
    return owner.container or ("none" if owner.is_known else "unknown")


@pytest.mark.parametrize("path", OWNER_CASES, ids=lambda path: path.stem)
def test_a_recorded_owner_is_read_from_proc_as_its_author_expects(path: Path, tmp_path: Path) -> None:
    head, _, cgroup = path.read_text().partition("### cgroup\n")
    expected = next(line for line in head.splitlines() if line.startswith("# expect-owner: "))
    (tmp_path / "4321").mkdir()
    (tmp_path / "4321/cgroup").write_text(cgroup)
    owner = read_owner(4321, proc=tmp_path)
    assert owner_in_the_words_of_the_cases(owner) == expected.removeprefix("# expect-owner: ")
