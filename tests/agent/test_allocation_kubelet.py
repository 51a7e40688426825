"""To whom the kubelet gave the GPUs, asked from a real gRPC server on a Unix socket."""

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from hypothesis import given as example
from hypothesis import strategies as st

from agent.allocation.given import Given, NodeGpus, node_gpus
from agent.allocation.kubelet import Kubelet, given
from agent.allocation.podresources import BadListError, Claim, Device, parse_list
from tests.agent.build_readings import uuid_of
from tests.fake_kubelet import FakeKubelet, claim, device, field, pod

GPUS = node_gpus(
    {uuid_of(0): 0, uuid_of(1): 1, uuid_of(2): 2}, lambda: {0: uuid_of(2).upper(), 1: uuid_of(1), 2: uuid_of(0)}
)
NOBODY: frozenset[str] = frozenset()


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path / "kubelet.sock") as kubelet:
        yield kubelet


@pytest.fixture
def asked(fake: FakeKubelet) -> Iterator[Kubelet]:
    kubelet = Kubelet(fake.socket, timedelta(seconds=10))
    yield kubelet
    kubelet.close()


def test_a_pod_that_holds_gpus_and_runs_nothing_is_told(fake: FakeKubelet, asked: Kubelet) -> None:
    fake.answer = (
        pod("train-0", device(uuid_of(0), uuid_of(2)))
        + pod("web")
        + pod("net", device("0000:3b:00.2", resource="x/nic"))
    )
    assert asked.read(GPUS, NOBODY) == Given({uuid_of(0): "pod ml/train-0", uuid_of(2): "pod ml/train-0"})


def test_without_any_pod_every_gpu_is_free(fake: FakeKubelet, asked: Kubelet) -> None:
    assert asked.read(GPUS, NOBODY) == Given()


def test_the_next_question_is_answered_anew(fake: FakeKubelet, asked: Kubelet) -> None:
    asked.read(GPUS, NOBODY)
    fake.answer = pod("late", device(uuid_of(1)))
    assert asked.read(GPUS, NOBODY) == Given({uuid_of(1): "pod ml/late"})


@pytest.mark.parametrize("status", [grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_a_kubelet_that_refuses_is_an_error_and_heals(
    fake: FakeKubelet, asked: Kubelet, status: grpc.StatusCode
) -> None:
    fake.fail = status
    assert asked.read(GPUS, NOBODY) == Given(error=f"kubelet does not tell what it gave away: {status.name}")
    fake.fail = None
    assert asked.read(GPUS, NOBODY) == Given()


def test_an_answer_of_another_kind_is_an_error(fake: FakeKubelet, asked: Kubelet) -> None:
    fake.answer = pod("train-0", device(uuid_of(0)))[:-3]
    said = asked.read(GPUS, NOBODY)
    assert said is not None
    assert "cut off" in (said.error or "")


def test_a_folder_that_cannot_be_looked_into_is_no_missing_kubelet(tmp_path: Path) -> None:
    """Its pods live on while it is away. Of such a place Python says that nothing is there, of any from 3.14 on."""
    (tmp_path / "kubelet").symlink_to(tmp_path / "kubelet")
    with pytest.raises(OSError, match="symbolic links"):
        Kubelet(tmp_path / "kubelet" / "pod-resources" / "kubelet.sock").read(GPUS, NOBODY)


def test_a_socket_that_nobody_serves_is_an_error_within_the_deadline(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path / "kubelet.sock"):
        pass
    (tmp_path / "kubelet.sock").touch()
    kubelet = Kubelet(tmp_path / "kubelet.sock", timedelta(seconds=0.3))
    said = kubelet.read(GPUS, NOBODY)
    kubelet.close()
    assert said is not None
    assert said.holders == {}
    assert "kubelet does not tell what it gave away" in (said.error or "")


def test_a_kubelet_that_runs_without_its_socket_is_an_error_and_none_at_all_is_nothing(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path / "pod-resources/kubelet.sock")
    assert kubelet.read(GPUS, NOBODY) is None
    assert kubelet.read(GPUS, frozenset({"kubelet"})) == Given(
        error=f"a kubelet runs, but there is no {tmp_path}/pod-resources/kubelet.sock"
    )


def test_a_kubelet_that_was_here_and_is_away_is_an_error_as_its_pods_live_on(tmp_path: Path) -> None:
    said = Kubelet(tmp_path / "kubelet.sock").read(GPUS, NOBODY)
    assert said is not None
    assert f"no kubelet answers in {tmp_path}" in (said.error or "")


def one(identity: str, resource: str = "nvidia.com/gpu") -> Given:
    return given([Device("ml/a", resource, identity)], [], GPUS)


NAMES = [
    (uuid_of(1), "nvidia.com/gpu", uuid_of(1)),
    (f"{uuid_of(1)}::7", "nvidia.com/gpu.shared", uuid_of(1)),
    (f"{uuid_of(1)}-3", "nvidia.com/gpu", uuid_of(1)),
    (uuid_of(1).upper(), "example.org/accelerator", uuid_of(1)),
    ("1", "nvidia.com/gpu", uuid_of(1)),
    ("1::0", "nvidia.com/gpu", uuid_of(1)),
    ("nvidia0", "nvidia.com/gpu", uuid_of(2)),
    ("nvidia0/vgpu1", "nvidia.com/gpu", uuid_of(2)),
]


@pytest.mark.parametrize(("identity", "resource", "uuid"), NAMES)
def test_a_gpu_is_found_by_every_name_that_device_plugins_give_it(identity: str, resource: str, uuid: str) -> None:
    assert one(identity, resource) == Given({uuid: "pod ml/a"})


@pytest.mark.parametrize("identity", ["nvidia7", "9", "gpu-a", "", "0000:3b:00.0"])
def test_a_gpu_of_a_name_that_nobody_can_read_may_be_any(identity: str) -> None:
    said = one(identity)
    assert said.holders == {}
    assert "no known GPU here" in (said.error or "")


@pytest.mark.parametrize(
    ("identity", "resource"),
    [
        ("MIG-11111111-2222-3333-4444-555555555555", "nvidia.com/mig-1g.5gb"),
        (uuid_of(9), "nvidia.com/gpu"),
        ("0", "amd.com/gpu"),
        ("0000:3b:00.2", "nvidia.com/hostdev"),
    ],
)
def test_what_is_no_whole_gpu_of_this_node_says_nothing(identity: str, resource: str) -> None:
    assert one(identity, resource) == Given()


def test_two_pods_on_one_gpu_are_both_told() -> None:
    pods = [Device(f"ml/{name}", "nvidia.com/gpu.shared", f"{uuid_of(0)}::{name}") for name in "aab"]
    assert given(pods, [], GPUS).holders == {uuid_of(0): "pod ml/a, pod ml/b"}


def test_a_gpu_that_was_claimed_leads_to_no_uuid_so_it_may_be_any() -> None:
    devices, claims = parse_list(pod("train-0", claim()))
    assert (devices, claims[0].pod) == ([], "ml/train-0")
    assert given([], claims, GPUS).error == "pod ml/train-0 has a GPU by a resource claim"
    other = [Claim("ml/b", ("compute-domain.nvidia.com", "k8s.compute-domain.nvidia.com/claim=x")), Claim("ml/c", ())]
    assert given([], other, GPUS) == Given()


def test_without_the_drivers_own_list_a_device_file_may_be_any() -> None:
    said = given([Device("ml/a", "nvidia.com/gpu", "nvidia0")], [], NodeGpus((uuid_of(0),), {0: uuid_of(0)}))
    assert said.error is not None


@example(st.binary(max_size=80))
def test_no_bytes_raise_anything_but_that_they_are_no_list(answer: bytes) -> None:
    with contextlib.suppress(BadListError):
        parse_list(answer)


WHOLE = pod("train-0", device(uuid_of(0), uuid_of(1)))


@pytest.mark.parametrize("length", range(1, len(WHOLE)))
def test_a_list_that_is_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(BadListError):
        parse_list(WHOLE[:length])


def test_a_pods_name_that_is_a_number_or_no_text_is_refused() -> None:
    for wrong in (field(1, field(3, 5)), field(1, field(1, b"\xff") + field(3, device("x"))), field(1, 5)):
        with pytest.raises(BadListError):
            parse_list(wrong)


def test_the_driver_is_asked_for_device_files_once_and_only_where_a_device_is_named_by_one() -> None:
    asked = []
    gpus = node_gpus({uuid_of(0): 0}, lambda: asked.append(1) or {0: uuid_of(0)})
    given([Device("ml/a", "nvidia.com/gpu", uuid_of(0)), Device("ml/b", "nvidia.com/gpu", "0")], [], gpus)
    assert asked == []
    for _ in range(2):
        assert given([Device("ml/a", "nvidia.com/gpu", "nvidia0")], [], gpus).holders == {uuid_of(0): "pod ml/a"}
    assert asked == [1]
