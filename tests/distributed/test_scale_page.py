"""The files that docs/scale.md shows can be used without changes."""

import re
import subprocess
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
PAGE = (Path(__file__).parents[2] / "docs/scale.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown(language):
    return [text for own, text in FENCE.findall(PAGE) if own == language]


COMPOSE, CLUSTER, TRAINING = shown("yaml")
KINDS = [*yaml.safe_load_all(CLUSTER), *yaml.safe_load_all(TRAINING)]


def of_kind(kind):
    return {each["metadata"]["name"]: each["spec"] for each in KINDS if each["kind"] == kind}


def test_services_use_the_volumes_of_the_compose_file():
    compose = yaml.safe_load(COMPOSE)
    for service in compose["services"].values():
        assert {volume.partition(":")[0] for volume in service.get("volumes", [])} <= set(compose["volumes"])
    host = re.search(r"tcp://(\w+):8786", compose["services"]["worker"]["command"])[1]
    assert host in compose["services"]


def test_pods_of_the_manifest_are_selected_and_have_their_volumes():
    pods = {name: spec["template"] for name, spec in [*of_kind("Deployment").items(), *of_kind("Job").items()]}
    assert set(pods) == {"scheduler", "worker", "train"}
    for name, deployment in of_kind("Deployment").items():
        assert deployment["selector"]["matchLabels"] == pods[name]["metadata"]["labels"]
    [(host, service)] = of_kind("Service").items()
    assert service["selector"] == pods["scheduler"]["metadata"]["labels"]
    assert f"tcp://{host}:{service['ports'][0]['port']}" in pods["worker"]["spec"]["containers"][0]["command"]
    for pod in pods.values():
        claims = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in pod["spec"].get("volumes", [])}
        assert set(claims.values()) <= set(of_kind("PersistentVolumeClaim"))
        for container in pod["spec"]["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= set(claims)
            assert all(isinstance(word, str) for word in container["command"])


def test_the_job_waits_in_a_file_of_its_own_until_data_is_on_the_volume():
    assert "kind: Job" not in CLUSTER
    assert [each["kind"] for each in yaml.safe_load_all(TRAINING)] == ["Job"]


def test_workers_are_started_in_the_same_way():
    worker = of_kind("Deployment")["worker"]["template"]["spec"]["containers"][0]["command"]
    assert yaml.safe_load(COMPOSE)["services"]["worker"]["command"] == " ".join(worker)


def test_the_script_for_slurm_is_valid():
    [script] = shown("bash")
    assert subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True).stderr == ""
    lines = script.splitlines()
    settings = [line for line in lines if line.startswith("#SBATCH")]
    assert lines[1 : 1 + len(settings)] == settings, "SLURM ignores settings after the first command"
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+=[\w:.-]+", line) for line in settings)
