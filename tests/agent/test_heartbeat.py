"""A heartbeat is complete by itself, says how old its sample is, and fits into a message."""

from msgspec.structs import replace

from agent.heartbeat import heartbeat
from agent.observe import Latest, Reporter
from tests.agent.build_samples import NOON, error, held, idle, process, sample, unknown, window
from tests.build import BOOT, EPOCH, gpu_uuid
from wire import subjects
from wire.messages import KEPT_PROCESSES, MAX_MESSAGE_BYTES, Heartbeat, Verdict, decode_heartbeat, encode
from wire.reasons import Reason, ReasonCode

REPORTER = Reporter("gpu-01", "0.1.0", "nvml")


def built(latest: Latest | None, now_seconds: float = 107.5, last_closed: int | None = 6) -> Heartbeat:
    return heartbeat(
        REPORTER,
        window(7, last_closed=last_closed),
        latest,
        spool_epoch=EPOCH,
        last_seq=41,
        now_seconds=now_seconds,
        sent_at=NOON,
    )


def test_it_says_who_when_and_what_was_closed_last():
    beat = built(Latest(sample(idle()), 100.0))
    assert (beat.node, beat.boot_id, beat.spool_epoch, beat.last_seq) == ("gpu-01", BOOT, EPOCH, 41)
    assert (beat.last_closed_window, beat.window_seconds, beat.sent_at) == (6, 300.0, NOON)
    assert (beat.uptime_seconds, beat.collector) == (107.5, "nvml")
    assert decode_heartbeat(subjects.heartbeat("gpu-01"), encode(beat)) == beat


def test_every_gpu_has_its_verdict_reasons_age_and_processes():
    busy = held(1, processes=(process(4321, user="alice", command="python", started="77"),))
    idle_now, busy_now, unknown_now = built(Latest(sample(idle(0), busy, unknown(2)), 100.0)).gpus
    assert (idle_now.uuid, idle_now.verdict, idle_now.age_seconds) == (gpu_uuid(0), Verdict.CANDIDATE, 7.5)
    assert busy_now.reasons == [Reason(ReasonCode.UTILIZATION, "50")]
    assert busy_now.processes == [process(4321, user="alice", started="77")]
    assert (idle_now.processes, unknown_now.processes) == ([], None)


def test_a_list_that_may_lack_processes_says_so():
    told = built(Latest(sample(idle(0), held(1, unlisted="graphics are not listed")), 100.0))
    assert [gpu.unlisted for gpu in told.gpus] == ["", "graphics are not listed"]
    assert decode_heartbeat(subjects.heartbeat("gpu-01"), encode(told)) == told


def test_errors_of_the_latest_sample_are_in_it_with_every_gpu_unknown():
    beat = built(Latest(error("hangs", 0, 1), 100.0))
    assert beat.errors == [Reason(ReasonCode.SAMPLE_ERROR, "hangs")]
    assert [gpu.verdict for gpu in beat.gpus] == [Verdict.UNKNOWN] * 2


def test_before_the_first_sample_and_window_it_says_nothing_about_gpus():
    beat = built(None, last_closed=None)
    assert (beat.gpus, beat.errors, beat.last_closed_window) == ([], [], None)


def test_an_age_is_never_negative():
    assert built(Latest(sample(idle()), 100.0), now_seconds=99.0).gpus[0].age_seconds == 0


def test_processes_go_before_a_heartbeat_grows_too_large_and_verdicts_never():
    crowd = tuple(process(pid, user="u" * 64) for pid in range(1, 200))
    latest = Latest(sample(*[held(index, processes=crowd) for index in range(16)]), 100.0)
    beat = built(latest)
    assert len(encode(beat)) <= MAX_MESSAGE_BYTES
    assert [len(gpu.processes or ()) for gpu in beat.gpus] == [KEPT_PROCESSES] * 16
    assert [gpu.processes_cut for gpu in beat.gpus] == [199 - KEPT_PROCESSES] * 16, "a cut list must not look whole"
    assert [replace(gpu, processes=None, processes_cut=0) for gpu in beat.gpus] == [
        replace(gpu, processes=None) for gpu in built(Latest(sample(*map(held, range(16))), 100.0)).gpus
    ]
