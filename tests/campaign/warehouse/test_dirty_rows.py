"""Unreadable and repeated rows: `record`, SQL and Arrow batches refuse the same ones."""

import polars as pl
import pytest
from duckdb import Error

from seqbatch.campaign import Campaign
from seqbatch.campaign.files.reading import source_of
from seqbatch.campaign.warehouse.statement import marked
from seqbatch.campaign.warehouse.sums import read_rows
from seqbatch.errors import InvalidFileError
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.campaign.warehouse.test_frozen_rule import joined, listing, tallied
from tests.campaign.warehouse.test_sums import assigned, here, state_of, summed
from tests.campaign.warehouses import ELSEWHERE
from tests.refusals import refused

GRID = {"grid": {"sizes": [40, 40]}}
#: Cells of a column of text; those of the first kind are numbers.
NUMBERS = ("1.5", " 2 ", "-3e0", "+4", "-0")
UNREADABLE = ("abc", "1,5", "1 000", "0x10", "1e400", "inf", "1.2.3", "--1", "12%", "true")
BEYOND = ("11", "-1e3")
#: Numbers of a column of numbers; a null or NaN is no outcome, and is not refused.
FLOATS = (1.5, float("inf"), float("-inf"), 11.0, -10.5, 10.0, 1e300)


class Ways:
    """The same wave of 40 units, whose outcomes come in three ways."""

    def __init__(self, folder, **changes):
        self.folder = folder
        self.stores = [open_store(folder / name) for name in ("afar.db", "near.db")]
        self.afar = Campaign.create({**ELSEWHERE, **GRID, **changes}, store=self.stores[0])
        self.near = Campaign.create(here(**GRID, **changes), store=self.stores[1])
        self.units, self.outcomes = assigned(self.afar, 40, 1)
        self.near.assign(self.units)

    def by_record(self, outcomes):
        """Return which rows `record` holds, from 1."""
        return {line for line, *_ in self.near.record(outcomes, dry_run=True).held}

    def by_sql(self, units, outcomes):
        """Return whether the database, or the reader of its result, refuses the tables."""
        try:
            result, path = summed(self.afar, self.folder, units, outcomes)
        except Error:
            return True
        return self.refuses(result, path.read_text())

    def by_arrow(self, units, outcomes, *, rows=1_000):
        """Return the rows that the rule refuses; all if the reader of its result refuses it."""
        rule = listing(self.afar.rule(), self.units)
        table = joined(rule, units, outcomes).combine_chunks()
        text = self.afar.sql(what="sums", assignments="assignments", outcomes="outcomes")
        try:
            result = rule.result(tallied(rule, table, rows=rows), text)
        except InvalidFileError as error:
            return {problem.row for problem in error.problems}
        return set(range(1, len(table) + 1)) if self.refuses(result, text) else set()

    def close(self):
        for store in self.stores:
            store.close()

    def refuses(self, result, text):
        with source_of(result) as opened:
            try:
                read_rows(opened, self.afar.situation(), state_of(self.afar), marked(text))
            except InvalidFileError:
                return True
        return False


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    made = Ways(tmp_path_factory.mktemp("ways"))
    yield made
    made.close()


def with_cell(outcomes, cell, *, row=4, column="visit"):
    """Return outcomes as texts or numbers, with one cell replaced."""
    kind = pl.String if isinstance(cell, str) else pl.Float64
    cells = outcomes[column].cast(kind).to_list()
    cells[row] = cell
    return outcomes.with_columns(pl.Series(column, cells, dtype=kind))


@pytest.mark.parametrize("cell", [*NUMBERS, *UNREADABLE, *BEYOND, *FLOATS])
def test_an_outcome_is_refused_by_all_or_by_none(ways, cell):
    outcomes = with_cell(ways.outcomes, cell)
    held = ways.by_record(outcomes)
    assert held == (set() if cell in (*NUMBERS, 1.5, 10.0) else {5})
    assert ways.by_sql(ways.units, outcomes) == bool(held)
    assert bool(ways.by_arrow(ways.units, outcomes)) == bool(held)


@pytest.mark.parametrize("cell", UNREADABLE)
def test_an_unreadable_outcome_is_named_and_never_0(ways, cell):
    outcomes = with_cell(with_cell(ways.outcomes, cell), cell, row=20)
    ids = ways.units["id"].to_list()
    rows = {ids.index(outcomes["id"][row]) + 1 for row in (4, 20)}
    assert ways.by_arrow(ways.units, outcomes) == rows


@pytest.mark.parametrize(("cell", "fits"), [(0.0, True), (1.0, True), (0.5, False), (2.0, False)])
def test_yes_and_no_are_1_and_0_by_all(tmp_path, cell, fits):
    ways = Ways(tmp_path, **about("bought", kind="yes/no"))
    outcomes = with_cell(ways.outcomes, cell, column="bought")
    assert (ways.by_record(outcomes) == set()) == fits
    assert ways.by_sql(ways.units, outcomes) != fits
    assert (ways.by_arrow(ways.units, outcomes) == set()) == fits
    ways.close()


def test_every_metric_of_a_sum_has_its_own_range(tmp_path):
    """A bonus of -1 is refused by all, although the sum is within its range."""
    metrics = {"visit": {"range": [-10, 10]}, "bonus": {"range": [0, 9]}}
    ways = Ways(tmp_path, metrics=metrics, objective={"maximise": {"visit": 1, "bonus": 1}})
    outcomes = with_cell(ways.outcomes, -1.0, column="bonus")
    assert ways.by_record(outcomes) == {5}
    assert ways.by_sql(ways.units, outcomes)
    assert ways.by_arrow(ways.units, outcomes)
    assert not ways.by_sql(ways.units, ways.outcomes)
    assert not ways.by_arrow(ways.units, ways.outcomes)
    ways.close()


@pytest.mark.parametrize("gone", [None, float("nan")])
def test_no_outcome_is_not_refused(ways, gone):
    outcomes = with_cell(ways.outcomes, gone)
    assert not ways.by_sql(ways.units, outcomes)
    assert not ways.by_arrow(ways.units, outcomes)


def test_a_unit_with_two_outcomes_is_refused_by_all(ways):
    other = ways.outcomes[3:4].with_columns(visit=pl.lit(9.0))
    outcomes = pl.concat([ways.outcomes, other])
    with refused("several-rows"):
        ways.by_record(outcomes)
    assert ways.by_sql(ways.units, outcomes)
    # The unit's second row comes right after its first.
    place = ways.units["id"].to_list().index(other["id"][0]) + 1
    assert ways.by_arrow(ways.units, outcomes) == {place + 1}


@pytest.mark.parametrize("changed", [{}, {"spend": 59.0, "vip": True}])
@pytest.mark.parametrize("rows", [1_000, 7], ids=["in one batch", "in several"])
def test_a_unit_that_is_there_twice_is_refused_whatever_its_action(ways, changed, rows):
    """Its other row may have another action, or no outcome, and so be in another group."""
    again = ways.units[3:4].with_columns(**{name: pl.lit(cell) for name, cell in changed.items()})
    units = pl.concat([ways.units, again])
    for outcomes in (ways.outcomes, ways.outcomes.filter(pl.col("id") != again["id"][0])):
        assert ways.by_sql(units, outcomes)
        found = ways.by_arrow(units, outcomes, rows=rows)
        assert found == ({41} if rows == 1_000 else set(range(1, 42)))


def test_a_unit_with_an_outcome_in_one_batch_and_none_in_another_is_refused(ways):
    rule = listing(ways.afar.rule(), ways.units)
    table = joined(rule, ways.units, ways.outcomes)
    text = ways.afar.sql(what="sums", assignments="assignments", outcomes="outcomes")
    unseen = joined(rule, ways.units[:1], ways.outcomes[:0])
    both = tallied(rule, table).merged(tallied(rule, unseen))
    assert ways.refuses(rule.result(both, text), text)
