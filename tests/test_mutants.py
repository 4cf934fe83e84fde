"""The mutants that `make mutants` tries can be made: what they replace is still there."""

import ast
from functools import cache

from tests.mutants import PARTS, ROOT, declared

THOROUGH = "pytest.mark.thorough"


def test_every_mutant_can_be_made_and_names_its_tests():
    mutants = declared()
    assert len(mutants) >= 60
    assert {mutant.part for mutant in mutants} == set(PARTS)
    assert [f"{mutant.name}: {mutant.stale}" for mutant in mutants if mutant.stale] == []
    for mutant in mutants:
        # It must still be a program; whether it is another one, the tests that it names say.
        ast.parse(mutant.applied((ROOT / mutant.path).read_text(encoding="utf-8")))
        assert mutant.old != mutant.new, mutant.name
        files = [word.partition("::")[0] for word in mutant.selection]
        assert files, mutant.name
        assert all((ROOT / file).is_file() for file in files), mutant.name
        assert [word for word in mutant.selection if not is_run(word)] == [], mutant.name
        assert mutant.why, mutant.name


def is_run(word):
    """Say whether `make test` runs what a word for pytest names: a file, class or test in it."""
    file, *names = word.partition("[")[0].split("::")
    return all(THOROUGH not in marks(file).get(name, [THOROUGH]) for name in names)


@cache
def marks(file):
    """Return the decorators of all functions and classes of a file, by name."""
    return {
        node.name: [ast.unparse(mark) for mark in node.decorator_list]
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
