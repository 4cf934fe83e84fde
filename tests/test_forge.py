"""Workflows, hooks and metadata parse, and agree with the rest of the project."""

import tomllib

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
