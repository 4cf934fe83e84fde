"""Workflows, hooks and metadata parse, and agree with the rest of the project."""

import re
import tomllib
from importlib import metadata

import pytest
import yaml

import seqbatch
from tests.documents import ROOT

GITHUB = ROOT / ".github"
FILES = sorted(
    [
        *GITHUB.glob("**/*.yml"),
        ROOT / "CITATION.cff",
        ROOT / ".pre-commit-config.yaml",
    ]
)


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_parses(path):
    assert isinstance(read(path), dict)


def test_every_supported_python_is_tested():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    prefix = "Programming Language :: Python :: 3."
    supported = [f"3.{name.removeprefix(prefix)}" for name in classifiers if prefix in name]
    jobs = read(GITHUB / "workflows" / "ci.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == supported


def test_workflows_run_the_makefiles_commands():
    jobs = read(GITHUB / "workflows" / "ci.yml")["jobs"]
    commands = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("lint", "docs", "test"):
        assert f"make {target}" in commands
        assert f"\n{target}: " in makefile


def test_hooks_use_the_projects_own_tools():
    repositories = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    for hook in repositories[0]["hooks"]:
        assert hook["entry"].startswith(".venv/bin/")
        assert hook["language"] == "system"


def test_the_citation_names_this_version_and_the_paper():
    citation = read(ROOT / "CITATION.cff")
    assert citation["version"] == seqbatch.__version__
    [paper] = citation["references"]
    assert paper["title"].startswith("Sequential Batch Learning")
    assert len(paper["authors"]) == 7


#: Extras that are for work on this project.
OF_CONTRIBUTORS = {"bench", "dev", "docs"}


def declared():
    """Return the extras of every package that users install; none for those that all install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    made = {}
    for extra in sorted(extras.keys() - OF_CONTRIBUTORS):
        for requirement in extras[extra]:
            made.setdefault(re.match(r"[\w.-]+", requirement)[0], []).append(extra or "always")
    return {name: ", ".join(found) for name, found in made.items()}


def test_the_licence_of_every_dependency_is_listed():
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w.-]+) \| (.+) \| (.+) \|$", page, flags=re.MULTILINE)[1:]
    assert {name: extra for name, _, extra in rows} == declared()
    installed = {each.metadata["Name"].lower(): each.metadata for each in metadata.distributions()}
    for name, licence, _ in rows:
        if (found := installed.get(name.lower())) is None:
            continue
        told = [found.get("License-Expression"), found.get("License")]
        told += [each for each in found.get_all("Classifier", []) if each.startswith("License")]
        told = " ".join(filter(None, told))
        family = re.match(r"[A-Z]+|Apache", licence)[0]
        assert family in told, (name, licence, told[:80])
