"""The house: what an import brings, one way to install, files that say no more than they should."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seqbatch
from tests import files_page, public_names

ROOT = Path(__file__).parents[1]


def loaded_by(code):
    """Return the modules that are loaded after some code, in a process of its own."""
    code += "\nimport sys; print('loaded:', *sys.modules)"
    run = [sys.executable, "-c", code]
    result = subprocess.run(run, capture_output=True, check=True, text=True)
    return set(result.stdout.rpartition("loaded:")[2].split())


def test_the_import_brings_no_other_package():
    tops = {name.partition(".")[0] for name in loaded_by("import seqbatch")}
    others = tops - sys.stdlib_module_names - {"seqbatch"}
    assert {name for name in others if not name.startswith(("_", "sitecustomize"))} == set()


def test_commands_that_compute_nothing_start_at_once(tmp_path):
    made = (
        "from seqbatch.campaign import Campaign\nfrom seqbatch.storage import open_store\n"
        "spec = {'name': 'a', 'seed': 1, 'actions': ['x', 'y'], 'grid': {'sizes': [4, 4]},"
        " 'metrics': {'m': {'kind': 'yes/no'}}, 'objective': {'maximise': 'm'}}\n"
        f"Campaign.create(spec, store=open_store({str(tmp_path / 's.db')!r}))"
    )
    loaded_by(made)
    run = (
        "import sys\nfrom seqbatch.cli.app import app\n"
        "sys.argv = ['seqbatch', *{!r}]\napp(standalone_mode=False)"
    )
    assert "numpy" not in loaded_by(run.format(["--help"]))
    for command in ("status", "list"):
        words = ["campaign", command, *(["a"] if command == "status" else [])]
        loaded = loaded_by(run.format([*words, "--store", str(tmp_path / "s.db")]))
        assert "seqbatch.campaign" in loaded
        heavy = {"alembic", "altair", "numba", "polars", "rich.markdown", "scipy"}
        rooms = {"allocation", "inference", "learner", "planning.plan", "simulation"}
        assert loaded & (heavy | {f"seqbatch.{room}" for room in rooms}) == set()


def test_the_public_names_are_those_listed():
    """After a change on purpose: python -m tests.public_names, and an entry in the changelog."""
    page = public_names.PAGE.read_text(encoding="utf-8")
    assert page.partition(public_names.HEAD)[2] == public_names.listed()


def test_version_is_in_the_changelog():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {seqbatch.__version__}" in changelog


def test_requirements_are_pinned_hashed_and_free_of_addresses():
    for file in (ROOT / "requirements").glob("*.txt"):
        text = file.read_text(encoding="utf-8")
        pins = re.findall(r"^[a-z0-9][^\s]*==[^\s]+", text, re.MULTILINE)
        assert len(pins) > 10
        assert text.count("--hash=sha256:") >= len(pins)
        assert "://" not in text
        assert not re.search(r"^--(index|extra-index|find)", text, re.MULTILINE)


def test_the_gate_runs_the_readmes_test_command():
    assert "make test     #" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_public_names_exist():
    for name in seqbatch.__all__:
        assert hasattr(seqbatch, name)


def test_rooms_come_in_when_they_are_asked_for():
    code = (
        "import sys, seqbatch\n"
        "rooms = [room for room in seqbatch.ROOMS if f'seqbatch.{room}' in sys.modules]\n"
        "assert set(seqbatch.ROOMS) < set(dir(seqbatch))\n"
        "print(*rooms, seqbatch.planning.plan.__name__, seqbatch.simulation.simulate.__name__)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert result.stdout.split() == ["plan", "simulate"]


def test_a_name_that_is_not_there_is_missed():
    with pytest.raises(AttributeError, match="has no attribute 'planing'"):
        seqbatch.planing  # noqa: B018


def test_where_things_go_is_current():
    assert files_page.PAGE.read_text(encoding="utf-8") == files_page.page(), (
        "docs/files.md is out of date: run `python -m tests.files_page`"
    )


def test_every_file_says_what_it_is():
    silent = [str(path) for paths in files_page.rooms().values() for path in paths
              if not files_page.first_line(path)]  # fmt: skip
    assert silent == []


def test_no_two_classes_have_one_name():
    homes = {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path.name)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


#: Methods that take a text apart, and names that messages go by.
APART = {"startswith", "endswith", "split", "partition", "rpartition", "removeprefix"}
APART |= {"removesuffix", "splitlines", "replace", "find", "index"}
MESSAGES = {
    "said",
    "told",
    "message",
    "reason",
    "why",
    "advice",
    "warning",
    "verdict",
    "detail",
    "doubt",
    "sentence",
}
#: Where a text of somebody else's is cut to a line, or a name is taken out of a text.
CUT = {
    "campaign/files/reader_process.py": "a library's message, of which the first line is shown",
    "campaign/files/reading.py": "a library's message, of which the first line is shown",
    "campaign/record/codec.py": "a library's message, of which the first line is shown",
    "campaign/spec/toml.py": "messages of Python's TOML parser",
    "simulation/study_file.py": "a message of Python's about arguments",
}


def _is_message(node: ast.expr) -> bool:
    """Say whether an expression is the text of an error, or is called as messages are."""
    match node:
        case ast.Call(func=ast.Name("str"), args=[ast.Name("error" | "raised" | "problem")]):
            return True
        case ast.Name(name) | ast.Attribute(attr=name):
            return name in MESSAGES
        case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner):
            return _is_message(inner)
    return False


def _takes_apart(node: ast.Call) -> bool:
    """Say whether a call takes a message apart, by a method of text or a regular expression."""
    match node.func:
        case ast.Attribute(value=ast.Name("re")):
            return any(map(_is_message, node.args))
        case ast.Attribute(value=text, attr=method):
            return method in APART and _is_message(text)
    return False


def test_nothing_takes_a_message_apart():
    source, found = ROOT / "src" / "seqbatch", set()
    for path in source.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.Call) and _takes_apart(node) for node in ast.walk(tree)):
            found.add(path.relative_to(source).as_posix())
    assert found == set(CUT)


def test_every_refusal_of_a_state_has_a_code():
    for path in (ROOT / "src" / "seqbatch").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name("CampaignStateError"), keywords=given):
                    assert "code" in {each.arg for each in given}, f"{path}:{node.lineno}"
