"""Whose control group it is, beyond the recorded cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cgroups import Owner, owner_of

ID = "0123456789abcdef" * 4
OTHER = "f" * 64
UID = "11111111-2222-3333-4444-555555555555"
CASES = [
    (f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{ID}.scope", Owner(f"cri-o:{ID}", UID)),
    (f"0::/kubepods/pod{UID}/{ID}", Owner(f"container:{ID}", UID)),
    (f"0::/kubepods/burstable/pod{'ab' * 16}/{ID}", Owner(f"container:{ID}", "ab" * 16)),
    (f"5:cpu:/docker/{ID}\n4:memory:/docker/{ID}\n", Owner(f"docker:{ID}")),
    (f"0::/system.slice/nerdctl-{ID}.scope", Owner(f"containerd:{ID}")),
    ("0::/lxc.payload.web-1/system.slice/nginx.service", Owner("lxc:web-1")),
    ("5:cpu:/lxc/web-1/init.scope", Owner("lxc:web-1")),
    # a cluster in a container: the innermost container, and the pod
    (f"0::/docker/{OTHER}/kubelet/kubepods/pod{UID}/{ID}", Owner(f"container:{ID}", UID)),
    # a reader in a namespace of its own sees the others from there
    (f"0::/../cri-containerd-{ID}.scope", Owner(f"containerd:{ID}")),
    ("0::/../../system.slice/slurmstepd.scope/job_9/step_0", Owner(job="9")),
    ("0::/../..", Owner(is_known=False)),
    ("11:memory:/\n10:devices:/user.slice\n", Owner()),
    ("", Owner(is_known=False)),
    # names that anybody may give to groups of his own
    ("0::/user.slice/user-1.slice/slurmstepd.scope/job_9", Owner()),
    ("0::/user.slice/slurm/uid_0/job_9", Owner()),
    (f"0::/system.slice/libpod-conmon-{ID}.scope", Owner()),
    ("0::/system.slice/docker-0123.scope", Owner()),
]


@pytest.mark.parametrize(("cgroup", "expected"), CASES)
def test_an_owner_is_read_from_what_runtimes_and_schedulers_name(cgroup: str, expected: Owner) -> None:
    assert owner_of(cgroup) == expected


@given(st.text(max_size=300))
def test_no_text_at_all_raises(cgroup: str) -> None:
    owner_of(cgroup)
