"""The mutants that `make mutants` tries can be made: what they replace is still there."""

import ast

from tests.mutants import PARTS, ROOT, declared


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
        assert [word for word in mutant.selection if not is_there(word)] == [], mutant.name
        assert mutant.why, mutant.name


def is_there(word):
    """Say whether a file has the test or class that a word for pytest names, if it names one."""
    file, *names = word.partition("[")[0].split("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    return all(f"def {name}(" in text or f"class {name}" in text for name in names)
