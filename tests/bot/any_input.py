"""Whatever nodes and people may put into an incident, and what must hold for every message made of it."""

import re
from datetime import UTC

from hypothesis import strategies as st

from bot.incident import CardGpu, CardState, Finding, GpuChange, Incident, Kind, Quiet, QuietWhy, Said
from bot.judge.track import Evidence, LastHeld
from bot.judge.verdict import Because, Presence
from demo.workspace.block_kit import message_problems, too_long
from wire.messages import Process, ProcessKind
from wire.reasons import Reason, ReasonCode

ALICE, BOB = "U0ALICE", "U0BOB"
NASTY = st.sampled_from(
    [
        "<!channel>", "<@U0CAROL>", "<!subteam^S0ADMINS>", "<http://evil.example|here>", "http://evil.example",
        "&lt;!here&gt;", "`</tmp>` *x* _y_ ~z~ :fire:", "\u202egnp.exe", "a\nb\r\n> c", "@here #general", "\ud800",
        "", " ", "{node}", "%s", "x" * 5000, "&" * 3000, "<" * 3000, "<!date^1^{time}|x>",
    ]
)  # fmt: skip
TEXTS = NASTY | st.text(max_size=20)
INSTANTS = st.datetimes(timezones=st.sampled_from([UTC]))
NUMBERS = st.integers(-(2**63), 2**63 - 1)
PROCESSES = st.builds(
    Process,
    pid=NUMBERS,
    kind=st.sampled_from(ProcessKind),
    used_memory_bytes=st.none() | NUMBERS,
    started_at=st.none() | INSTANTS,
    user=st.none() | TEXTS,
    command=st.none() | TEXTS,
)
EVIDENCE = st.builds(Evidence, NUMBERS, INSTANTS, st.none() | NUMBERS, st.none() | NUMBERS, NUMBERS)
HELD = st.builds(LastHeld, NUMBERS, INSTANTS, st.none() | PROCESSES)
GPUS = st.builds(
    CardGpu,
    uuid=TEXTS,
    index=NUMBERS,
    model=st.none() | TEXTS,
    state=st.sampled_from(CardState),
    since=INSTANTS,
    changed_at=INSTANTS,
    window_seconds=st.floats(),
    streak=NUMBERS,
    judged_up_to=NUMBERS,
    evidence=st.lists(EVIDENCE, max_size=3).map(tuple),
    last_held=st.none() | HELD,
    because=st.sampled_from(Because),
    detail=TEXTS,
)
CHANGES = st.builds(
    GpuChange,
    state=st.sampled_from([one for one in CardState if one is not CardState.DISPUTED]),
    indexes=st.lists(NUMBERS, min_size=1, max_size=64).map(tuple),
    because=st.sampled_from(Because),
    detail=TEXTS.filter(lambda text: "\ud800" not in text),  # no message of a node can hold half a character
)
PEOPLE = st.none() | st.just(ALICE) | TEXTS
REASONS = st.builds(Reason, st.sampled_from(ReasonCode), TEXTS)
SENTENCES = st.builds(
    Said,
    st.sampled_from(["title.node_lost", "evidence.silent", "evidence.gpu_sick", "known.gpus", "reason.sample_error"]),
    st.fixed_dictionaries(
        dict.fromkeys(("subject", "detail", "index", "uuid", "action", "held", "candidate", "unknown"), TEXTS)
    ),
    st.fixed_dictionaries({"length": st.floats()}),
    st.fixed_dictionaries({"at": INSTANTS}),
)
WHATS = ["stalled", "uncertain", "load_stuck", "erroring", "down", "blind", "runaway", "work_stuck", "degraded"]
FINDINGS = st.builds(
    Finding,
    kind=st.sampled_from([kind for kind in Kind if kind is not Kind.CANDIDATE]),
    subject=TEXTS,
    presence=st.sampled_from(Presence),
    what=st.sampled_from([*WHATS, "node_lost", "gpu_sick", "stream_backlog"]),
    since=INSTANTS,
    title=SENTENCES,
    lines=st.lists(SENTENCES, max_size=3).map(tuple),
    last_known=st.lists(SENTENCES, max_size=3).map(tuple),
    changed_at=st.none() | INSTANTS,
)
QUIETS = st.builds(Quiet, st.sampled_from(QuietWhy), NUMBERS, st.none() | INSTANTS, TEXTS, TEXTS)
_LIFE = {
    "id": NUMBERS,
    "subject": TEXTS,
    "opened_at": INSTANTS,
    "mentions": st.lists(st.just(BOB) | TEXTS, max_size=3).map(tuple),
    "quiet": st.none() | QUIETS,
    "acknowledged_by": PEOPLE,
    "acknowledged_at": st.none() | INSTANTS,
    "disputed_by": PEOPLE,
    "disputed_at": st.none() | INSTANTS,
    "closed_at": st.none() | INSTANTS,
}
CANDIDATES = st.builds(Incident, kind=st.just(Kind.CANDIDATE), gpus=st.lists(GPUS, max_size=3).map(tuple), **_LIFE)
FOUND = st.builds(
    Incident,
    kind=st.sampled_from([Kind.RUNNER, Kind.NODE_LOST, Kind.GPU_SICK, Kind.STREAM_BACKLOG]),
    finding=FINDINGS,
    ending=st.lists(SENTENCES, max_size=2).map(tuple),
    **_LIFE,
)
GROUPED = st.builds(
    Incident,
    kind=st.sampled_from([Kind.FLEET, Kind.MANY_BLIND, Kind.STORM]),
    members=st.integers(0, 10**6),
    members_open=st.integers(0, 10**6),
    **_LIFE,
)

_DATE = re.compile(r"<!date\^\d+\^\{date_short_pretty\} \{time\}\|\d{1,4}-\d\d-\d\d \d\d:\d\d UTC>")


def assert_fits_and_is_harmless(message, people=()):
    """Slack would take it, screen readers get all of it, and no part of it is a mention, a link or a command."""
    assert message_problems(message.blocks) == []
    assert not too_long(message.blocks)
    assert 0 < len(message.text) <= 4000
    message.text.encode()
    for text in [message.text, *markdown_of(message.blocks)]:
        rest = _DATE.sub("", text)
        for user in people:
            rest = rest.replace(f"<@{user}>", "")
        assert "<" not in rest
        assert ">" not in rest
        assert not re.search(r"&(?!amp;|lt;|gt;)", rest)


def markdown_of(part):
    if isinstance(part, list):
        return [text for one in part for text in markdown_of(one)]
    if not isinstance(part, dict):
        return []
    if part.get("type") == "mrkdwn":
        assert part["verbatim"] is True
        return [part["text"]]
    return [text for value in part.values() for text in markdown_of(value)]
