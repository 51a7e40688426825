"""Where a process lives, as people read it."""

import pytest

from bot.render.values import process
from bot.render.words import words
from wire.messages import Process

WORDS = words("en")


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (Process(7), "PID 7"),
        (Process(7, user="alice", pod="ml/a", container="containerd:01"), "`alice`, PID 7, pod `ml/a`"),
        (Process(7, command="python", job="77"), "PID 7, `python`, Slurm job `77`"),
        (Process(7, container="docker:0123"), "PID 7, container `docker:0123`"),
        (Process(7, pod="<!here> `x`"), "PID 7, pod `&lt;!here&gt; 'x'`"),
    ],
)
def test_a_process_is_told_with_its_pod_its_job_or_its_container(shown: Process, expected: str) -> None:
    assert process(WORDS, shown) == expected
