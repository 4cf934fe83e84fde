"""Files as people have them, from the file to the first wave, with no spec edited.

`tests/corpus/manifest.toml` says what must happen to each file. Some cells of every usable one are
compared with what was stored: a file that is read wrongly without a word is worse than one refused.
"""

import json
import math
import tomllib
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seqbatch.campaign.record.codec import unpack
from seqbatch.cli.app import app
from seqbatch.storage import open_store

CORPUS = Path(__file__).parents[1] / "corpus"
MANIFEST = tomllib.loads((CORPUS / "manifest.toml").read_text(encoding="utf-8"))["files"]
BY_NAME = {case["file"]: case for case in MANIFEST}
UNITS = [case for case in MANIFEST if case["happens"] == "usable" and "of" not in case]
REFUSED = [case for case in MANIFEST if case["happens"] == "refused"]
OUTCOMES = [case for case in MANIFEST if "of" in case]
MISSING = "(missing)"
#: What belongs to the corpus and is no part of it.
BESIDE = {"manifest.toml", "make.py", "__init__.py"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    result = CliRunner().invoke(app, ["campaign", *words], catch_exceptions=False)
    assert "Traceback" not in result.output
    return result


def said(*words):
    """Run a command that must succeed; return its JSON."""
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def steps(case, *, reward="outcome"):
    """Return the commands from a file of units to its first wave, as an analyst types them."""
    path = str(CORPUS / case["file"])
    init = ["init", path, "--name", "corpus", "--actions", "none,offer", "--waves", "1"]
    init += ["--seed", "1"]
    options = case.get("options", [])
    return [
        [*init, "--maximise", reward, *options],
        ["validate", "spec.toml", path, *options],
        ["create", "spec.toml"],
        ["assign", "corpus", path, "--out", "answers.csv", *options],
    ]


def stored():
    """Return the units as they were stored, one dictionary each, in the order of the file."""
    store = open_store("campaigns.db", create=False)
    try:
        with store.read("corpus") as reader:
            chunks = [unpack(chunk.given) for chunk in reader.unit_chunks(given=True)]
    finally:
        store.close()
    return [row for chunk in chunks for row in chunk.to_pylist()]


def matches(found, expected):
    if expected == MISSING:
        # A missing category is kept as the text of an empty cell.
        return found in (None, "") or (isinstance(found, float) and math.isnan(found))
    if isinstance(expected, bool) or not isinstance(expected, int | float):
        return type(found) is type(expected) and found == expected
    return isinstance(found, float) and math.isclose(found, expected, rel_tol=1e-12)


def named(cases):
    return [pytest.param(case, id=case["file"]) for case in cases]


def test_the_corpus_is_whole():
    files = {path.name for path in CORPUS.iterdir() if path.is_file()} - BESIDE
    assert files == set(BY_NAME)
    assert len(MANIFEST) == len(BY_NAME) >= 40
    assert max((CORPUS / name).stat().st_size for name in files) < 20_000
    for case in MANIFEST:
        assert case["what"]
        assert case["happens"] == ("refused" if "words" in case else "usable")
        assert ("cells" in case) == (case in UNITS)


@pytest.mark.parametrize("case", named(UNITS))
def test_a_usable_file_is_used_and_read_rightly(case):
    init, validate, create, assign = steps(case)
    made = said(*init)
    assert made["unit"] == case["unit"]
    became = {column["column"]: column["became"] for column in made["columns"]}
    assert {name: became[name] for name in case.get("became", {})} == case.get("became", {})
    assert said(*validate)["sound"]
    assert sum(said(*create)["sizes"]) == case["rows"]
    assigned = said(*assign)
    assert assigned["assigned"] == case["rows"]
    warned = " ".join(assigned["warnings"])
    assert all(words in warned for words in case.get("says", ())), warned
    rows = stored()
    assert len(rows) == case["rows"]
    for cell in case["cells"]:
        row = rows[cell["row"] - 1]
        for name, expected in cell.items():
            if name != "row":
                assert matches(row[name], expected), (name, row[name], expected)


@pytest.mark.parametrize("case", named(REFUSED))
def test_an_unusable_file_is_refused_in_words(case):
    for step in steps(case):
        result = run(*step)
        if result.exit_code:
            break
    assert result.exit_code == 2, result.output
    # A terminal breaks lines anywhere.
    text = " ".join(result.output.split())
    assert all(words in text for words in case["words"]), text
    assert not Path("answers.csv").exists()


@pytest.mark.parametrize("case", named(OUTCOMES))
def test_outcomes_are_recorded_as_they_are_meant(case):
    for step in steps(BY_NAME[case["of"]], reward=case["reward"]):
        said(*step)
        if step[0] == "init" and "format" in case:
            declare_format(case["format"])
    path = str(CORPUS / case["file"])
    assert said("record", "corpus", path)["accepted"] == case["accepted"]
    store = open_store("campaigns.db", create=False)
    with store.read("corpus") as reader:
        _, found, _ = reader.outcomes(reader.numbers(list(case["values"])))
    store.close()
    assert found.ravel().tolist() == pytest.approx(list(case["values"].values()), rel=1e-12)
    if "close" in case:
        asked = run("close", "corpus")
        assert asked.exit_code == 3
        assert all(words in asked.output for words in case["close"]), asked.output


def declare_format(example):
    """Declare how outcomes are spelled: no file of units can tell."""
    spec = Path("spec.toml")
    text = spec.read_text(encoding="utf-8")
    assert text.count("\n[metrics.outcome]\n") == 1
    declared = text.replace("[metrics.outcome]\n", f'[metrics.outcome]\nformat = "{example}"\n')
    spec.write_text(declared, encoding="utf-8")


def test_cells_are_compared_strictly():
    assert matches(date(2024, 1, 3), date(2024, 1, 3))
    assert not matches("2024-01-03", date(2024, 1, 3))
    assert not matches("31", 31.0)
    assert not matches("True", True)
    assert not matches(0.0, MISSING)
    assert matches(None, MISSING)
