"""What a report says of eligibility, limits and masks: what was declared, and what was used."""

from collections.abc import Iterator

from seqbatch.campaign.views.constraint_words import constraints_said
from seqbatch.campaign.views.reporting.material import Material
from seqbatch.display import Table, cell

Row = tuple[int | str, str, float, float | None, float]


def constraints_declared(of: Material) -> Iterator[str]:
    """Yield what was declared of who may get what, how many, and of masks."""
    if of.created.masked:
        until = "it was unmasked" if of.now.unmasked else "it is unmasked"
        yield (
            f"The campaign is masked: until {until}, actions are known by codes alone. The key has "
            f"the fingerprint {of.created.key}."
        )
    yield from constraints_said(of.created.spec)


def limits_used(of: Material) -> Table | None:
    """Return every limit with what was used of it, in each wave and in all."""
    rows = [*_in_waves(of), *_in_all(of)]
    if not rows:
        return None
    shown = [
        (wave, what, cell(used), "" if most is None else cell(most), cell(least) if least else "")
        for wave, what, used, most, least in rows
    ]
    columns = ("wave", "limit of", "used", "at most", "at least")
    return Table("Limits, and what was used", columns, shown, words=("limit of",), keys=2)


def _in_waves(of: Material) -> Iterator[Row]:
    spec = of.now.spec
    given = {(row.wave, row.action): row.units for row in of.status.actions}
    for wave in sorted({wave for wave, _ in given}):
        for name, capacity in spec.capacity.items():
            if capacity.each_wave is not None or capacity.at_least:
                used = given.get((wave, name), 0)
                yield wave, name, used, capacity.each_wave, capacity.at_least
        if spec.budget is not None and spec.budget.each_wave is not None:
            yield wave, "budget", _cost(of, given, wave), spec.budget.each_wave, 0


def _in_all(of: Material) -> Iterator[Row]:
    spec = of.now.spec
    given = {(row.wave, row.action): row.units for row in of.status.actions}
    for name, capacity in spec.capacity.items():
        if capacity.total is not None:
            yield "all", name, of.now.in_all.get(name, 0), capacity.total, 0
    if spec.budget is not None and spec.budget.total is not None:
        cost = sum(_cost(of, given, wave) for wave in {wave for wave, _ in given})
        yield "all", "budget", cost, spec.budget.total, 0


def _cost(of: Material, given: dict[tuple[int, str], int], wave: int) -> float:
    return sum(action.cost * given.get((wave, action.name), 0) for action in of.now.actions)
