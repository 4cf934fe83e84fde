"""What the documents show is what happens."""

import doctest
import pkgutil
import re
import sys
import tomllib
import types

import pytest

import seqbatch
from seqbatch import checks, grids, policies
from seqbatch.policies.base import BasePolicy
from tests.cases import thorough
from tests.documents import FENCE, PAGES, ROOT, Shown, examples, run
from tests.regenerate_docs import regenerate
from website.docstrings import as_markdown

RUNNABLE = re.compile(r"^```(python|console)", re.MULTILINE)
RUN = [page for page in PAGES if RUNNABLE.search(page.read_text(encoding="utf-8"))]
#: Pages with many plans or simulations; how-to pages and tutorials run the same functions.
LONG = [ROOT / "docs" / "planning.md", ROOT / "docs" / "how-to" / "study.md"]
#: Parts of the package that have no public names of their own.
INTERNAL = {
    "__main__",
    "archive",
    "awaited_units",
    "batch_progress",
    "chart",
    "cli",
    "display",
    "document",
    "learner",
    "learner_file",
    "output_files",
    "pictures",
    "public_names",
    "timed_steps",
    "unit_log",
}


def named(page):
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [*(page for page in RUN if page not in LONG), *thorough(*LONG)], ids=named
)
def test_blocks_run_and_print_what_is_shown(page, tmp_path):
    for shown in run(page.read_text(encoding="utf-8"), tmp_path):
        if not shown.true:
            assert shown.printed == shown.text


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_fence_is_understood(page):
    text = page.read_text(encoding="utf-8")
    assert len(re.findall("^```", text, re.MULTILINE)) == 2 * len(FENCE.findall(text))


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "how-to").glob("*.md")), ids=named)
def test_how_to_pages_stay_short(page):
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    words = [word for line in prose.splitlines() if line[:1] != "|" for word in line.split()]
    assert len(words) <= 600, "split the page, or link instead of repeating"


def test_pages_that_show_something_else_are_found_and_rewritten(tmp_path):
    page = tmp_path / "page.md"
    shown = "```python\nprint(1 + 1)\n```\n\n```\n3\n```\n\n```console\n$ echo one\ntwo\n```\n"
    page.write_text(shown)
    assert [part.true for part in run(shown, tmp_path)] == [False, False]
    assert regenerate(page) == 2
    assert page.read_text() == shown.replace("3\n", "2\n").replace("two", "one")
    assert regenerate(page) == 0


def test_installs_are_spelled_in_the_one_way_that_works_in_a_clone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "seqbatch[" not in text, named(page)
        found += re.findall(r"""["'`]\.\[([a-z,]+)\]["'`]""", text)
    assert {extra for each in found for extra in each.split(",")} <= {
        *project["optional-dependencies"]
    }
    assert len(found) > 10


def test_dots_stand_for_any_text():
    assert Shown(0, 0, "by ... at noon\n", "by Ada at noon\n").true
    assert not Shown(0, 0, "by ... at noon\n", "by Ada at one\n").true


def test_a_command_that_fails_is_not_passed_over(tmp_path):
    page = "```console\n$ seqbatch campaign status nobody\n```\n"
    with pytest.raises(AssertionError, match="campaign status nobody: 2"):
        list(run(page, tmp_path))
    list(run(page.replace("nobody", "nobody  # exit 2"), tmp_path))


@pytest.mark.slow
def test_the_skeleton_is_a_policy():
    [(code, _)] = examples((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    module = types.ModuleType("skeleton")
    sys.modules["skeleton"] = module
    try:
        exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
        checks.check_policy(module.Greedy())
        assert doctest.testmod(module).attempted == 1
        assert doctest.testmod(module).failed == 0
    finally:
        del sys.modules["skeleton"]


def test_the_start_of_research_names_every_policy_and_grid():
    text = (ROOT / "docs" / "start-research.md").read_text(encoding="utf-8")
    for name in policies.__all__:
        kind = getattr(policies, name)
        if isinstance(kind, type) and issubclass(kind, BasePolicy):
            assert f"| `{name}` |" in text
    for name in ("uniform", "minimax", "geometric", "sparse", "online", "explicit"):
        assert hasattr(grids, name)
        assert f"| `grids.{name}` |" in text


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_docstrings_become_markdown():
    written = "Highest <x, theta> of ``scores``; see :class:`~seqbatch.Grid`, as in::\n\n    code"
    link = '<autoref identifier="seqbatch.Grid" optional><code>Grid</code></autoref>'
    shown = f"Highest &lt;x, theta> of `scores`; see {link}, as in:\n\n    code"
    assert as_markdown(written) == shown
    assert as_markdown("first, ties\n    See there.\n") == (
        "first\n    See there.\nties\n    See there.\n"
    )


def test_every_public_module_has_a_page_of_reference():
    pages = {page.stem for page in (ROOT / "docs" / "reference").glob("*.md")}
    parts = {info.name for info in pkgutil.iter_modules(seqbatch.__path__)}
    assert parts - pages == INTERNAL
    shown = (ROOT / "docs" / "reference" / "seqbatch.md").read_text(encoding="utf-8")
    for name in seqbatch.__all__:
        assert f"`{name}`" in shown
