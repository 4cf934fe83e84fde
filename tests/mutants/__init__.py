"""Wrong numbers, declared one by one, and the tests that must notice each of them.

A mutant is a few words of the program that are replaced by others, such that the program still runs
and some number is wrong: a sign, a factor, an index. The TOML files beside this one declare them,
one file for each part of the package. Each entry has

file
    The file, below src/seqbatch.
old, new
    What is replaced, which must stand in the file exactly once, and by what.
tests
    What must fail: words for pytest.
why
    What would be wrong with the numbers that people read.

`make mutants` applies them one at a time to a copy of the tree and runs their tests.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = (
    "core", "policies", "allocation", "engine", "simulation", "planning", "inference", "coverage",
    "campaign", "service",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of the program, and who must notice."""

    name: str
    part: str
    file: str
    old: str
    new: str
    tests: str
    why: str

    @property
    def path(self):
        """The file's place below the root."""
        return Path("src", "seqbatch", self.file)

    @property
    def stale(self):
        """Why the mutant cannot be made any more, empty where it can."""
        times = (ROOT / self.path).read_text(encoding="utf-8").count(self.old)
        return "" if times == 1 else f"its old text occurs {times} times in {self.file}, not once"

    @property
    def selection(self):
        """The words for pytest."""
        return self.tests.split()

    def applied(self, text):
        """Return the file's text with the change in it."""
        return text.replace(self.old, self.new)


def declared():
    """Return all mutants, in the order of their declaration."""
    made = []
    for part in PARTS:
        text = Path(__file__).with_name(f"{part}.toml").read_text(encoding="utf-8")
        made += [
            Mutant(name=name, part=part, **entry) for name, entry in tomllib.loads(text).items()
        ]
    return made
