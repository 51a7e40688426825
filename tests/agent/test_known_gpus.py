"""The known set: kept, never shrunk by itself, and never silently lost."""

from pathlib import Path

import pytest

from agent.known_gpus import FILE_NAME, KnownGpus, KnownGpusError
from agent.read_sample import take_sample
from agent.reading import KnownGpu, ProcessView, Sweep
from agent.verdicts import RuleSettings, Sample
from tests.agent.build_readings import MODEL, idle_gpu, sweep_of, uuid_of
from wire.messages import Verdict
from wire.reasons import ReasonCode


def test_nothing_is_known_before_the_first_good_sample(tmp_path: Path) -> None:
    assert KnownGpus(tmp_path / "not made yet").load() == {}


def test_what_is_remembered_is_there_for_the_next_process(tmp_path: Path) -> None:
    KnownGpus(tmp_path).remember([idle_gpu(0), idle_gpu(1)])
    assert KnownGpus(tmp_path).load() == {uuid_of(0): KnownGpu(0, MODEL), uuid_of(1): KnownGpu(1, MODEL)}


def test_a_gpu_that_is_no_longer_read_stays_known_and_a_new_index_is_kept(tmp_path: Path) -> None:
    known = KnownGpus(tmp_path)
    known.remember([idle_gpu(0), idle_gpu(1)])
    known.remember([idle_gpu(0, uuid=uuid_of(1))])
    assert known.load() == {uuid_of(0): KnownGpu(0, MODEL), uuid_of(1): KnownGpu(0, MODEL)}


def test_a_gpu_that_no_longer_tells_its_model_keeps_the_one_it_told(tmp_path: Path) -> None:
    known = KnownGpus(tmp_path)
    known.remember([idle_gpu(0)])
    known.remember([idle_gpu(0, model=None), idle_gpu(1, model=None)])
    assert known.load() == {uuid_of(0): KnownGpu(0, MODEL), uuid_of(1): KnownGpu(1, None)}


def test_the_same_gpus_are_not_written_again(tmp_path: Path) -> None:
    known = KnownGpus(tmp_path)
    known.remember([idle_gpu(0)])
    written = known.path.stat()
    known.remember([idle_gpu(0)])
    assert (known.path.stat().st_ino, known.path.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_what_another_process_writes_counts_from_the_next_look_on(tmp_path: Path) -> None:
    known, accepting = KnownGpus(tmp_path), KnownGpus(tmp_path)
    known.remember([idle_gpu(0), idle_gpu(1)])
    assert len(known.load()) == 2
    accepting.replace_all([idle_gpu(1)])
    assert list(known.load()) == [uuid_of(1)]
    known.path.write_bytes(b"{")
    with pytest.raises(KnownGpusError, match="accept-gpus"):
        known.load()
    accepting.replace_all([idle_gpu(0)])
    assert list(known.load()) == [uuid_of(0)]


def test_the_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    known = KnownGpus(tmp_path)
    known.remember([idle_gpu(0)])
    with known.path.open() as before:
        known.remember([idle_gpu(1)])
        assert uuid_of(1) not in before.read()
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"version": 1}', b'{"version": 1, "gpus": {"GPU-x": 5}}'])
def test_a_damaged_file_is_an_error_and_not_an_empty_set(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(KnownGpusError, match="accept-gpus"):
        KnownGpus(tmp_path).load()


def test_a_disk_that_refuses_keeps_them_in_memory_until_it_takes_them(tmp_path: Path) -> None:
    blocked = tmp_path / "state"
    blocked.symlink_to(tmp_path / "nowhere/at/all")
    known = KnownGpus(blocked)
    known.remember([idle_gpu(0)])
    assert known.load() == {uuid_of(0): KnownGpu(0, MODEL)}
    blocked.unlink()
    known.remember([idle_gpu(0)])
    assert KnownGpus(blocked).load() == {uuid_of(0): KnownGpu(0, MODEL)}


class Recorded:
    """One sweep after the other."""

    name = "recorded"

    def __init__(self, *sweeps: Sweep) -> None:
        self._sweeps = list(sweeps)

    async def sweep(self) -> Sweep:
        return self._sweeps.pop(0)

    async def close(self) -> None: ...


async def samples_of(known: KnownGpus, *sweeps: Sweep, remember: bool = True) -> list[Sample]:
    collector = Recorded(*sweeps)
    return [
        await take_sample(collector, known, RuleSettings(), remember=remember, read_view=lambda _pids: ProcessView())
        for _ in sweeps
    ]


async def test_a_gpu_that_goes_missing_is_an_error_until_a_person_accepts_it(tmp_path: Path) -> None:
    known = KnownGpus(tmp_path)
    both, one = sweep_of(idle_gpu(0), idle_gpu(1)), sweep_of(idle_gpu(0))
    first, second, third = await samples_of(known, both, one, one)
    assert first.errors == ()
    for sample in (second, third):
        assert [error.code for error in sample.errors] == [ReasonCode.GPU_MISSING]
        assert [gpu.verdict for gpu in sample.gpus] == [Verdict.UNKNOWN] * 2
    known.replace_all(one.gpus)
    (after,) = await samples_of(known, one)
    assert [gpu.verdict for gpu in after.gpus] == [Verdict.CANDIDATE]


async def test_an_error_teaches_nothing(tmp_path: Path) -> None:
    known = KnownGpus(tmp_path)
    await samples_of(known, Sweep(error="x"), sweep_of(idle_gpu(0), idle_gpu(0)))
    assert known.load() == {}


async def test_a_damaged_known_set_makes_every_sample_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{")
    (sample,) = await samples_of(KnownGpus(tmp_path), sweep_of(idle_gpu(0)))
    assert [error.code for error in sample.errors] == [ReasonCode.SAMPLE_ERROR]
    assert sample.gpus == ()


async def test_a_sample_can_be_taken_without_writing(tmp_path: Path) -> None:
    await samples_of(KnownGpus(tmp_path), sweep_of(idle_gpu(0)), remember=False)
    assert list(tmp_path.iterdir()) == []
