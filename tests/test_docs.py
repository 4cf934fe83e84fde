"""What the documents show is what happens."""

import contextlib
import doctest
import io
import re
import sys
import types
from pathlib import Path

import pytest

from seqbatch import checks, grids, policies
from seqbatch.policies.base import BasePolicy

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples(page):
    """Return each Python block with the plain block that follows it at once, if any."""
    blocks = list(FENCE.finditer(page.read_text(encoding="utf-8")))
    pairs = []
    for index, block in enumerate(blocks):
        if block[1] != "python":
            continue
        after = blocks[index + 1] if index + 1 < len(blocks) else None
        adjacent = after and not after[1] and not after.string[block.end() : after.start()].strip()
        pairs.append((block[2], after[2] if adjacent else None))
    return pairs


CASES = [(page.name, code, shown) for page in PAGES for code, shown in examples(page)]


@pytest.mark.parametrize(("page", "code", "shown"), CASES, ids=lambda value: str(value)[:20])
def test_blocks_run_and_print_what_is_shown(page, code, shown):
    module = types.ModuleType("shown")
    sys.modules["shown"] = module
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), module.__dict__)
    finally:
        del sys.modules["shown"]
    if shown is not None:
        assert printed.getvalue() == shown


def test_the_readme_has_an_example_with_output():
    assert any(page == "README.md" and shown for page, _, shown in CASES)


def test_the_skeleton_is_a_policy():
    [(code, _)] = examples(ROOT / "CONTRIBUTING.md")
    module = types.ModuleType("skeleton")
    sys.modules["skeleton"] = module
    try:
        exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
        checks.check_policy(module.Greedy())
        assert doctest.testmod(module).attempted == 1
        assert doctest.testmod(module).failed == 0
    finally:
        del sys.modules["skeleton"]


def test_the_readme_names_every_policy_and_grid():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in policies.__all__:
        kind = getattr(policies, name)
        if isinstance(kind, type) and issubclass(kind, BasePolicy):
            assert f"| `{name}` |" in text
    for name in ("uniform", "minimax", "geometric", "sparse", "online", "explicit"):
        assert hasattr(grids, name)
        assert f"| `grids.{name}` |" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
