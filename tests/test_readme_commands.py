"""The commands in the README run as printed."""

import contextlib
import re

import polars as pl
import pytest

from seqbatch.lab import EXPERIMENTS
from tests.campaign.instances import units
from tests.documents import FENCE, ROOT, run_command

README = (ROOT / "README.md").read_text(encoding="utf-8")
#: The lines of README's shell blocks: those that are of no language and hold commands.
COMMANDS = [
    line
    for block in FENCE.finditer(README)
    if not block[1] and re.match(r"(seqbatch|make|pip) ", block[3])
    for line in block[3].splitlines()
]


def of(program):
    return [line for line in COMMANDS if line.startswith(program)]


@pytest.mark.slow
def test_plan_and_campaign(tmp_path):
    """The list of customers is there at the start, and the outcomes once there are assignments."""
    units(3_000).write_csv(tmp_path / "customers.csv")
    for line in [*of("seqbatch plan"), *of("seqbatch campaign")]:
        if " record " in line:
            given = pl.read_csv(tmp_path / "assignments.csv", infer_schema=False)
            rows = given.select("id").with_columns(visit=pl.lit(1.0))
            rows.write_csv(tmp_path / "outcomes.csv")
        with contextlib.chdir(tmp_path):
            code, shown = run_command(line)
        assert code == 0, f"{line}\n{shown}"
    assert "Verified: no discrepancies." in shown
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "plan.html").exists()


def test_every_other_command_is_one_that_there_is():
    """Tests and figures take long: here it is checked that they are spelled as they must be."""
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert of("make ")
    for line in of("make "):
        assert line.split()[1] in targets
    [line] = of("seqbatch reproduce")
    first, _, others = line.removeprefix("seqbatch reproduce").partition("#")
    named = [first.strip(), *(name.strip(" or") for name in others.split(","))]
    assert set(named) == {*EXPERIMENTS, "all"}
    known = ("make ", "seqbatch plan", "seqbatch campaign", "seqbatch reproduce", "seqbatch sim")
    assert all(line.startswith(known) for line in COMMANDS)
