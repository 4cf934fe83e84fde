"""The commands of README, and those that draw the paper's figures, are ones that there are."""

import re

from seqbatch.lab import EXPERIMENTS
from tests.documents import FENCE, ROOT


def commands(page, program):
    """Return the lines of a page's plain blocks that run a program."""
    blocks = [block for block in FENCE.finditer(page.read_text(encoding="utf-8")) if not block[1]]
    lines = [line for block in blocks for line in block[3].splitlines()]
    return [line.partition("#") for line in lines if line.startswith(f"{program} ")]


def test_readme_names_targets_of_make():
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = [line.split()[1] for line, *_ in commands(ROOT / "README.md", "make")]
    assert named == ["demo", "test"]
    assert set(named) <= set(targets)


def test_the_start_of_research_names_every_figure():
    page = ROOT / "docs" / "start-research.md"
    [(first, _, others)] = commands(page, "seqbatch reproduce")
    named = [first.split()[-1], *(name.strip(" or") for name in others.split(","))]
    assert set(named) == {*EXPERIMENTS, "all"}


def test_readme_fits_on_a_screen():
    """Newcomers decide here: what is longer belongs behind one of the doors."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 350
