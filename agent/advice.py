"""Why a finding of `check` matters, and what to do about GPUs that cannot be judged."""

from collections.abc import Mapping

from wire.reasons import ReasonCode

WHY: Mapping[str, str] = {
    "agent": "only a running agent reports what it sees",
    "allocation": "a GPU that a scheduler has given away is not free, even while nothing runs on it",
    "bus": "windows wait on this node's disk until the bot's server takes them",
    "collector": "nothing is concluded from readings that fail or come late",
    "config": "it says what counts as idle, and where reports go",
    "GPU": "a GPU that cannot be judged is never called free",
    "idle memory": "the rule is 0 bytes: cards that read a little while idle are never called free",
    "kernel log": "its Xid messages show a broken driver: they confirm a stall earlier, and speak for a reboot",
    "known GPUs": "a GPU that vanishes must be noticed",
    "owners": "people are told who holds a GPU; a verdict never depends on it",
    "process view": "an empty list of processes proves nothing unless all processes are in it",
    "release": "meanwhile no GPU of this node is judged",
    "remedies": "what is on here is offered in Slack, and a person may then have it done",
    "sample": "nothing is concluded for any GPU",
    "state_dir": "the spool, the record and the known GPUs are kept there",
}

READINGS_PAGE = "docs/readings.md"
_SICK = "drain the node, then reset the GPU (gpu-oncall-agent release first) or reboot"
_DRIVER = "see what nvidia-smi -q says of this card; unified memory, vGPU guests and old drivers do not tell: {page}"

TODO: Mapping[ReasonCode, str] = {
    ReasonCode.UTILIZATION_UNREADABLE: _DRIVER,
    ReasonCode.MEMORY_UNREADABLE: "a driver from R510 on is needed; unified memory cannot be judged: {page}",
    ReasonCode.PROCESSES_UNREADABLE: "run the agent as root on the host; a driver of 535.43 to 535.86: upgrade it",
    ReasonCode.MIG_ENABLED: "nothing, or turn MIG off: {page}",
    ReasonCode.MIG_UNREADABLE: _DRIVER,
    ReasonCode.PROCESS_VIEW: "give the agent the host's processes: {page}",
    ReasonCode.RECOVERY_ACTION: _SICK,
    ReasonCode.RECOVERY_ACTION_UNREADABLE: _SICK,
}


def why(topic: str) -> str:
    """`GPU 3` counts as `GPU`."""
    return WHY[topic if topic in WHY else topic.split(" ", 1)[0]]


def what_to_do(codes: list[ReasonCode]) -> str:
    """For the first of the codes that there is something to do about."""
    todo = next((TODO[code] for code in codes if code in TODO), "")
    return todo.format(page=READINGS_PAGE)
