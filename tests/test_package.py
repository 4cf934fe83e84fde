"""The wheel and the sdist, and the library's first example in a clean environment."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import seqbatch
from tests.documents import ROOT, examples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """Build both as a release would, without a network."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run([*build, "-t", "wheel", "-t", "sdist"], cwd=ROOT, check=True)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_holds_types_and_migrations(shipped):
    names = set(zipfile.ZipFile(shipped[0]).namelist())
    migrations = ROOT / "src" / "seqbatch" / "storage" / "migrations" / "versions"
    for path in [migrations.parent / "env.py", *migrations.glob("schema_*.py")]:
        assert path.relative_to(ROOT / "src").as_posix() in names
    assert "seqbatch/py.typed" in names
    assert all(name.startswith(("seqbatch/", "seqbatch-")) for name in names)


def test_the_sdist_holds_what_its_own_tests_need(shipped):
    with tarfile.open(shipped[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "Makefile", "mkdocs.yml", "CITATION.cff", "docs/index.md"):
        assert name in names
    for folder in ("src/seqbatch", "tests", "website", "requirements", ".github/workflows"):
        assert any(name.startswith(f"{folder}/") for name in names)
    assert not any("__pycache__" in name or name.startswith(("out/", ".venv/")) for name in names)


@pytest.mark.thorough
def test_the_first_example_runs_from_the_wheel(shipped, tmp_path):
    python = clean_environment(tmp_path / "env", shipped[0])
    code, shown = examples((ROOT / "docs" / "start-research.md").read_text(encoding="utf-8"))[0]
    code += (
        "\nimport seqbatch, sys; print(seqbatch.__file__, seqbatch.__version__, file=sys.stderr)"
    )
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    place, version = done.stderr.split()
    assert Path(place).is_relative_to(tmp_path)
    assert version == seqbatch.__version__
    assert done.stdout == shown


def clean_environment(folder, wheel):
    """Install the wheel alone; third-party packages are those of this environment."""
    venv.create(folder, symlinks=os.name != "nt")
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = ["-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, *install, str(wheel)], check=True, capture_output=True)
    own = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # Path files in there are not followed, so that the editable install stays out of sight.
    (Path(own) / "others.pth").write_text("\n".join(others), encoding="utf-8")
    return python
