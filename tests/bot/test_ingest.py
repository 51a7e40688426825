"""From bytes of the stream to rows, tracks and incidents, on a real database."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from bot.advance import Advance, AdvanceSettings, Click, Outcome
from bot.incident import CardState
from bot.ingest import Arrived
from bot.judge.verdict import Presence
from bot.store import incidents, outbox, schema, windows
from tests.build import FIRST_WINDOW, OTHER_BOOT, START, gpu_uuid, heartbeat, observation
from wire.messages import Verdict, encode

C, H, U = Verdict.CANDIDATE, Verdict.HELD, Verdict.UNKNOWN


def arrived(*observations, first_seq=1):
    return [Arrived(f"gpuoncall.obs.{one.node}", first_seq + i, encode(one)) for i, one in enumerate(observations)]


def counts(connection):
    tables = (schema.node_window, schema.missing, schema.rejected, schema.incident, schema.outbox)
    return {table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() for table in tables}


def idle(count, first=FIRST_WINDOW, **changes):
    return [observation(first + i, **changes) for i in range(count)]


async def test_three_idle_windows_and_a_fresh_heartbeat_open_one_incident_with_one_card(store, fleet, ingest, advance):
    fleet.heard(heartbeat(FIRST_WINDOW + 2))
    await ingest.take("OBS", START, arrived(*idle(2)))
    assert await store.read(incidents.all_open) == []
    await ingest.take("OBS", START, arrived(*idle(1, FIRST_WINDOW + 2), first_seq=3))
    (incident,) = await store.read(incidents.all_open)
    assert [gpu.uuid for gpu in incident.gpus] == [gpu_uuid(0)]
    (card,) = await store.read(lambda connection: outbox.due(connection, START.max.replace(year=2200)))
    assert (card.incident_id, card.kind) == (incident.id, "card")


async def test_a_heartbeat_that_comes_after_the_window_opens_it_too(store, fleet, ingest, advance):
    await ingest.take("OBS", START, arrived(*idle(3)))
    assert await store.read(incidents.all_open) == []
    fleet.heard(heartbeat(FIRST_WINDOW + 2))
    await advance.refresh("gpu-01")
    assert len(await store.read(incidents.all_open)) == 1


async def test_windows_that_a_spool_flushes_two_hours_late_are_recorded_and_open_nothing(store, fleet, ingest):
    fleet.heard(heartbeat(FIRST_WINDOW + 26))
    await ingest.take("OBS", START, arrived(*idle(3)))
    assert fleet.tracks["gpu-01"].gpus[gpu_uuid(0)].streak == 3
    assert await store.read(counts) == {
        "node_window": 3, "missing": 0, "rejected": 0, "incident": 0, "outbox": 0,
    }  # fmt: skip


async def test_a_duplicate_is_stored_once_also_after_a_restart(store, fleet, ingest):
    one = idle(3)
    taken = await ingest.take("OBS", START, arrived(*one, one[1]))
    assert (taken.stored, taken.duplicates) == (3, 1)
    fleet.tracks.clear()
    fleet.tracks.update(await store.read(windows.load_tracks))
    taken = await ingest.take("OBS", START, arrived(*one))
    assert (taken.stored, taken.duplicates) == (0, 3)
    assert fleet.tracks["gpu-01"].gpus[gpu_uuid(0)].streak == 3


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[1,2]",
        b"\xff\xfe",
        encode(observation(node="gpu-02")),
        encode(replace(observation(), window_number=-1)),
        encode(observation()).replace(b'"seq":1', b'"seq":99999999999999999999'),
        encode(observation()).replace(b"2026-11-30T", b"0001-01-01T"),
        encode(observation()).replace(b'"gpu-01"', b'"../etc"'),
        encode(observation(FIRST_WINDOW, [C, C])).replace(gpu_uuid(1).encode(), gpu_uuid(0).encode()),
    ],
)
async def test_what_cannot_be_used_is_kept_with_its_reason_and_never_blocks_the_rest(store, ingest, body):
    bad = Arrived("gpuoncall.obs.gpu-01", 1, body)
    taken = await ingest.take("OBS", START, [bad, *arrived(*idle(2), first_seq=2)])
    assert (taken.stored, taken.rejected) == (2, (1,))
    (row,) = await store.read(lambda connection: connection.execute(sa.select(schema.rejected)).all())
    assert row.body == body
    assert row.reason


async def test_a_gap_in_a_nodes_seq_is_recorded_as_missing(store, ingest):
    await ingest.take("OBS", START, arrived(*idle(2), observation(FIRST_WINDOW + 5)))
    (row,) = await store.read(lambda connection: connection.execute(sa.select(schema.missing)).all())
    assert (row.first_seq, row.last_seq) == (3, 5)


async def test_the_position_moves_with_the_rows(store, ingest):
    await ingest.take("OBS", START, arrived(*idle(3), first_seq=40))
    assert await store.read(lambda connection: windows.position(connection, "OBS")) == (START, 42)


async def test_runs_and_hours_are_written_for_the_record_when_they_end(store, ingest):
    verdicts = [H, H, *[C] * 10, H]  # the last one begins the second hour
    reports = [observation(FIRST_WINDOW + i, [verdict]) for i, verdict in enumerate(verdicts)]
    late = reports.pop(1)
    await ingest.take("OBS", START, arrived(*reports, late))
    runs = await store.read(lambda connection: connection.execute(sa.select(schema.gpu_run)).all())
    assert [(run.verdict, run.first_window, run.last_window) for run in runs] == [
        ("held", FIRST_WINDOW, FIRST_WINDOW),
        ("candidate", FIRST_WINDOW + 2, FIRST_WINDOW + 11),
    ]
    (hour,) = await store.read(lambda connection: connection.execute(sa.select(schema.gpu_hour)).all())
    assert (hour.candidate_seconds, hour.held_seconds, hour.unknown_seconds) == (3000.0, 600.0, 0.0)


async def opened(store, fleet, ingest):
    fleet.heard(heartbeat(FIRST_WINDOW + 2))
    await ingest.take("OBS", START, arrived(*idle(3)))
    (incident,) = await store.read(incidents.all_open)
    return incident


async def test_one_held_sample_closes_the_card_and_needs_three_new_windows_to_open_again(store, fleet, ingest, advance):
    await opened(store, fleet, ingest)
    fleet.heard(heartbeat(FIRST_WINDOW + 2, [H]))
    await advance.refresh("gpu-01")
    assert await store.read(incidents.all_open) == []
    for i in (3, 4, 5, 6):  # window 3 held a sample; a later report of it as candidate is not believed
        fleet.heard(heartbeat(FIRST_WINDOW + i))
        await ingest.take("OBS", START, arrived(observation(FIRST_WINDOW + i), first_seq=i + 1))
        assert len(await store.read(incidents.all_open)) == (1 if i == 6 else 0)


async def test_the_held_sample_is_remembered_over_a_restart_of_the_bot(store, fleet, ingest, advance):
    await opened(store, fleet, ingest)
    fleet.heard(heartbeat(FIRST_WINDOW + 2, [H]))
    await advance.refresh("gpu-01")
    tracks = await store.read(windows.load_tracks)
    assert tracks["gpu-01"].gpus[gpu_uuid(0)].streak == 0


@pytest.mark.parametrize("settings", [AdvanceSettings(timedelta(0), timedelta(0), shadow=True)])
async def test_shadow_mode_keeps_the_card_until_the_mode_is_live(store, fleet, ingest, settings):
    incident = await opened(store, fleet, ingest)
    assert (await store.read(lambda connection: outbox.card_of(connection, incident.id))).state == "shadow"
    live = Advance(store, fleet, replace(settings, shadow=False))
    await live.start()
    assert (await store.read(lambda connection: outbox.card_of(connection, incident.id))).state == "waiting"


async def test_a_new_boot_closes_the_card(store, fleet, ingest, advance):
    await opened(store, fleet, ingest)
    fleet.heard(heartbeat(None, boot_id=OTHER_BOOT))
    await advance.refresh("gpu-01")
    assert await store.read(incidents.all_open) == []


async def test_judging_again_without_news_writes_nothing(store, fleet, ingest, advance):
    incident = await opened(store, fleet, ingest)
    await advance.refresh("gpu-01")
    await advance.refresh_open()
    (same,) = await store.read(incidents.all_open)
    assert same == incident


async def test_clicks_are_recorded_with_what_they_came_to(store, fleet, ingest, advance):
    incident = await opened(store, fleet, ingest)
    token = await store.write(lambda tx: incidents.button_token(tx.connection, incident, START))
    click = Click(token, "acknowledge", "U1", "T1")
    first, second = await advance.acknowledge(click), await advance.acknowledge(replace(click, user="U2"))
    assert (first.outcome, first.incident.acknowledged_by) == (Outcome.DONE, "U1")
    assert (second.outcome, second.incident.acknowledged_by) == (Outcome.ALREADY, "U1")
    assert (await advance.acknowledge(replace(click, token="made up"))).outcome is Outcome.UNKNOWN_BUTTON
    fleet.heard(heartbeat(FIRST_WINDOW + 2, [H]))
    await advance.refresh("gpu-01")
    assert (await advance.said_in_use(click)).outcome is Outcome.CLOSED
    await advance.refused(click, "another team")
    rows = await store.read(lambda connection: connection.execute(sa.select(schema.click)).all())
    assert [row.outcome for row in rows] == ["done", "already", "unknown_button", "closed", "refused: another team"]


async def test_said_in_use_disputes_the_gpu(store, fleet, ingest, advance):
    incident = await opened(store, fleet, ingest)
    token = await store.write(lambda tx: incidents.button_token(tx.connection, incident, START))
    clicked = await advance.said_in_use(Click(token, "in_use", "U1", "T1"))
    assert clicked.incident.gpus[0].state is CardState.DISPUTED


async def test_a_failed_transaction_leaves_the_fleet_as_it_was(store, fleet, ingest):
    await ingest.take("OBS", START, arrived(*idle(1)))
    before = dict(fleet.tracks)

    def fail(transaction):
        transaction.on_commit(fleet.tracks.clear)
        raise RuntimeError("disk")

    with pytest.raises(RuntimeError):
        await store.write(fail)
    assert fleet.tracks == before


async def test_the_windows_of_a_time_in_the_past_can_be_read(store, ingest):
    await ingest.take("OBS", START, arrived(*idle(6)))
    at = observation(FIRST_WINDOW + 3).started_at
    found = await store.read(lambda connection: windows.windows_around(connection, "gpu-01", at, 2))
    assert [one.window_number for one in found] == [FIRST_WINDOW + 3, FIRST_WINDOW + 2]
    assert await store.read(lambda connection: windows.windows_around(connection, "gpu-09", at, 2)) == []


async def test_present_is_judged_again_every_time(fleet, ingest):
    fleet.heard(heartbeat(FIRST_WINDOW + 2))
    await ingest.take("OBS", START, arrived(*idle(3)))
    assert fleet.judged("gpu-01").gpus[gpu_uuid(0)].standing.presence is Presence.PRESENT
    fleet.heard(heartbeat(FIRST_WINDOW + 3))
    assert fleet.judged("gpu-01").gpus[gpu_uuid(0)].standing.presence is Presence.UNKNOWN
