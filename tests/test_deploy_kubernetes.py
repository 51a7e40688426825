"""The manifests: what the API server's schemas say of them, and whether our programs take what stands in them."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import agent.config
import bot.config
from agent.__main__ import main as agent_command
from bot.__main__ import cli as bot_command
from tests.accepted import environment_names, parses

FOLDER = Path(__file__).parents[1] / "deploy" / "kubernetes"
PAGE = FOLDER.parents[1] / "docs" / "install-kubernetes.md"
COMMANDS = {"gpu-oncall-agent": agent_command, "gpu-oncall": bot_command}
VERSIONS = ("1.30", "1.33", "1.37")
OF_NVIDIA = {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}


def kustomization() -> dict[str, Any]:
    return yaml.safe_load((FOLDER / "kustomization.yaml").read_text())


def resources() -> list[dict[str, Any]]:
    files = [FOLDER / name for name in kustomization()["resources"]]
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def named(kind: str, name: str) -> dict[str, Any]:
    return next(one for one in resources() if one["kind"] == kind and one["metadata"]["name"] == name)


def pods() -> dict[str, dict[str, Any]]:
    """The pod templates by the name of their workload."""
    return {
        one["metadata"]["name"]: one["spec"]["template"] for one in resources() if "template" in one.get("spec", {})
    }


def containers() -> Iterator[dict[str, Any]]:
    for pod in pods().values():
        yield from pod["spec"]["initContainers"] + pod["spec"]["containers"]


CONTAINERS = {container["name"]: container for container in containers()}
each_container = pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_api_servers_schemas_take_every_resource(version):
    for resource in resources():
        assert kubernetes_validate.validate(resource, version, strict=True) is not None


def test_kustomize_puts_them_together():
    if shutil.which("kubectl") is None:
        pytest.skip("NO KUBECTL: whether kustomize takes deploy/kubernetes is NOT TESTED here")
    made = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    documents = list(yaml.safe_load_all(made.stdout))
    for document in documents:
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)
        assert document["metadata"].get("namespace", document["metadata"]["name"]) == "gpu-oncall"
    text = made.stdout
    assert "image: registry.example/gpu-oncall:0.1.0" in text
    assert "image: registry.example/gpu-oncall-agent:0.1.0" in text
    assert len(set(re.findall(r"name: (gpu-oncall-config-\w+)$", text, re.MULTILINE))) == 1


def test_every_file_is_used_and_no_image_is_left_without_a_registry():
    named_files = {
        *kustomization()["resources"],
        *kustomization()["configMapGenerator"][0]["files"],
        "kustomization.yaml",
    }
    assert {path.name for path in FOLDER.iterdir()} == named_files
    assert {image["name"] for image in kustomization()["images"]} == {one["image"] for one in containers()}


def test_both_programs_take_the_config():
    file = FOLDER / "config.yaml"
    node, bots = agent.config.load(file), bot.config.load(file)
    assert node.bus.servers == bots.bus.servers, "a join token must fit the nodes' config"
    assert bots.database == "DATABASE_URL"
    for name, listen in (("agent", node.metrics.address()), ("bot", bots.metrics.address())):
        assert listen == ("0.0.0.0", CONTAINERS[name]["ports"][0]["containerPort"])
        for probe in ("livenessProbe", "readinessProbe"):
            assert CONTAINERS[name][probe]["httpGet"]["port"] == "metrics"
    assert str(bots.ca_file()).startswith(mounts("bot")["secrets"])


def mounts(container: str) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in CONTAINERS[container]["volumeMounts"]}


def test_what_is_mounted_lies_where_the_programs_look():
    defaults = agent.config.AgentConfig()
    assert mounts("agent") == mounts("join")
    assert mounts("bot") == mounts("init")
    assert mounts("agent")["state"] == str(defaults.state_dir)
    assert mounts("agent")["pod-resources"] == str(defaults.schedulers.kubelet_socket.parent)
    assert mounts("bot")["data"] == str(bot.config.BotConfig().data_dir)
    for pod in pods().values():
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        for container in pod["spec"]["containers"]:
            assert set(mounts(container["name"])) == volumes


@each_container
def test_a_container_starts_a_command_with_options_that_it_takes(container):
    if "command" in container:
        assert str(agent.config.AgentConfig().key_file()) in container["command"][-1]
        return
    parses(COMMANDS[container["image"]], container["args"])


@each_container
def test_a_container_sets_no_variable_that_nobody_reads(container):
    of_the_config = {bot.config.load(FOLDER / "config.yaml").database}
    assert {one["name"] for one in container["env"]} <= environment_names() | OF_NVIDIA | of_the_config


@each_container
def test_a_container_has_no_right_that_it_does_not_need(container):
    context = container["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert "privileged" not in context
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}


def test_the_agent_sees_the_hosts_processes_takes_no_gpu_and_runs_on_every_gpu_node():
    spec = pods()["gpu-oncall-agent"]["spec"]
    assert spec["hostPID"] is True
    assert not spec.get("hostNetwork")
    assert not spec.get("hostIPC")
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert "nvidia.com/gpu:" not in (FOLDER / "agent.yaml").read_text().replace("no nvidia.com/gpu:", "")
    for pod in pods().values():
        assert pod["spec"]["automountServiceAccountToken"] is False


def test_the_bot_is_not_root():
    context = pods()["gpu-oncall"]["spec"]["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == 10001


def test_every_secret_that_the_bot_reads_is_one_that_the_docs_make():
    made = set(re.findall(r"--from-(?:file|literal)=([\w.-]+)=", PAGE.read_text()))
    of_environment = {one["valueFrom"]["secretKeyRef"]["key"] for one in CONTAINERS["bot"]["env"] if "valueFrom" in one}
    folder = mounts("bot")["secrets"]
    files = {one["value"].removeprefix(f"{folder}/") for one in CONTAINERS["bot"]["env"] if "value" in one}
    authority = bot.config.load(FOLDER / "config.yaml").ca_file()
    assert of_environment | files | {authority.name} == made


def test_the_network_policies_are_for_our_pods_and_let_the_bus_and_the_database_through():
    for name, ports in (("gpu-oncall", {53, 4222, 5432, 443}), ("gpu-oncall-agent", {53, 4222})):
        policy = named("NetworkPolicy", name)["spec"]
        assert policy["podSelector"]["matchLabels"].items() <= pods()[name]["metadata"]["labels"].items()
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert {port["port"] for rule in policy["egress"] for port in rule.get("ports", [])} == ports
        workload = CONTAINERS["bot" if name == "gpu-oncall" else "agent"]
        assert policy["ingress"][0]["ports"][0]["port"] == workload["ports"][0]["containerPort"]
