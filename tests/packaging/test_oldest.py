"""The oldest versions that pyproject.toml claims, as `tools/oldest.py` prints them for a job that tries them."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = ROOT / "pyproject.toml"
TOOL = ROOT / "tools" / "oldest.py"
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="tests of an installed package have no tools beside them")


@pytest.fixture(scope="module")
def pins():
    spec = importlib.util.spec_from_file_location("oldest", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda project, *extras: list(module.pins(project, extras))


@pytest.fixture(scope="module")
def project():
    return tomllib.loads(PYPROJECT.read_text())["project"]


def test_pins_each_dependency_to_the_oldest_version_claimed(pins, project):
    found = pins(project)
    assert len(found) == len(project["dependencies"])
    for requirement, pin in zip(project["dependencies"], found, strict=True):
        assert pin == requirement.replace(">=", "==")


def test_every_extra_can_be_pinned(pins, project):
    for extra in project["optional-dependencies"]:
        assert all(re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?==[\w.]+(;.*)?", pin) for pin in pins(project, extra)), extra


def test_own_extras_are_pinned_where_they_are_named(pins):
    project = {
        "name": "mine",
        "dependencies": ["a>=1.2,<3"],
        "optional-dependencies": {"x": ["b[y,z] >= 2.0; python_version < '3.14'"], "all": ["mine[x]", "c>=4"]},
    }
    x = "b[y,z]==2.0; python_version < '3.14'"
    assert pins(project) == ["a==1.2"]
    assert pins(project, "x") == ["a==1.2", x]
    assert pins(project, "all") == ["a==1.2", x, "c==4"]


def test_refuses_a_dependency_without_an_oldest_version(pins):
    for requirement in ("a", "a<3", "a~=1.2"):
        with pytest.raises(ValueError, match="claims no oldest version: give it one with >="):
            pins({"name": "mine", "dependencies": [requirement]})


def test_refuses_an_extra_that_is_not_there(pins):
    with pytest.raises(ValueError, match="no extra is called 'y'; there are x"):
        pins({"name": "mine", "optional-dependencies": {"x": []}}, "y")


def test_a_job_installs_them_on_the_oldest_python(project):
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert "tools/oldest.py test" in workflow
    oldest_python = project["requires-python"].removeprefix(">=")
    assert f'python-version: "{oldest_python}"' in workflow
    for path in re.findall(r"tests/\w+\.py", workflow):
        assert (ROOT / path).is_file(), path


def test_typer_is_new_enough_for_options_with_choices(project):
    typer = next(name for name in project["dependencies"] if name.startswith("typer"))
    assert tuple(int(part) for part in re.findall(r"\d+", typer)) >= (0, 19), "Literal came with typer 0.19"
