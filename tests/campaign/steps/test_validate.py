"""What create, assign and record would say, said before, and nothing kept."""

from dataclasses import replace

import polars as pl
import pytest

from seqbatch.campaign import Campaign, validate
from seqbatch.campaign.files import reading
from seqbatch.errors import DoubtWarning, InvalidFileError, InvalidSpecError
from seqbatch.storage import open_store
from tests.campaign.instances import SPEC, created, outcomes, units
from tests.refusals import places


@pytest.fixture
def scratch(tmp_path):
    opened = open_store(tmp_path / "scratch.db")
    yield opened
    opened.close()


def values(frame):
    return pl.DataFrame({"id": frame["id"], "visit": [1.0] * len(frame)})


def test_a_spec_and_files_that_are_right(scratch):
    frame = units(300)
    found = validate(SPEC, frame, values(frame), scratch=scratch)
    assert found.sound
    assert (found.units, found.left_over) == (300, 0)
    assert found.recorded.accepted == 300
    assert found.prepared.now.sizes == (300, 200, 100)


def test_a_list_of_everybody_is_larger_than_the_first_wave(scratch):
    frame = units(1_000)
    found = validate(SPEC, frame, values(frame), scratch=scratch)
    assert found.sound
    assert (found.units, found.left_over) == (1_000, 700)
    # Any of them may be drawn: the outcomes of all can be judged.
    assert found.recorded.accepted == 1_000


def test_dedupe_is_about_the_units_only(scratch):
    frame = units(300)
    twice = pl.concat([frame, frame.head(3)])
    spec = {**SPEC, "metrics": {"visit": {"rows": "sum", "range": [-10, 10]}}}
    rows = pl.concat([values(frame), values(frame).head(2).with_columns(visit=2.0)])
    found = validate(spec, twice, rows, scratch=scratch, dedupe="last")
    assert (found.problems, found.units, found.recorded.accepted) == ((), 300, 302)


def test_calendar_waves_take_any_number(scratch):
    spec = {**SPEC, "grid": {"calendar": True, "waves": 2, "units": 90}}
    found = validate(spec, units(200), scratch=scratch)
    assert (found.sound, found.units, found.left_over) == (True, 200, 0)


def test_several_things_are_wrong_at_once(scratch):
    frame = units(50).with_columns(age=pl.lit("old"))
    rows = pl.DataFrame({"id": ["000000", "nobody"], "visit": [1.0, 2.0]})
    found = validate(SPEC, frame, rows, scratch=scratch)
    [problem] = found.problems
    assert isinstance(problem, InvalidFileError)
    assert len(problem.problems) == 50
    # The units' ids are all that it takes to judge outcomes.
    assert (found.recorded.accepted, found.recorded.quarantined) == (1, 1)
    assert not found.sound


def test_what_cannot_be_looked_at_is_said(scratch, tmp_path):
    found = validate({**SPEC, "floor": 3}, "units.csv", "outcomes.csv", scratch=scratch)
    [problem] = found.problems
    assert isinstance(problem, InvalidSpecError)
    assert found.unchecked == (
        "units.csv: correct the spec first", "outcomes.csv: correct the spec first",
    )  # fmt: skip
    missing = str(tmp_path / "none.csv")
    found = validate(SPEC, missing, "outcomes.csv", scratch=scratch)
    assert places(found.problems[0]) == [(0, "", "no-such-file")]
    assert found.unchecked == ("outcomes.csv: correct the ids of units first",)


def test_both_files_may_be_wrong(scratch):
    frame = units(20).with_columns(age=pl.lit("old"))
    rows = pl.DataFrame({"id": ["000000"], "visits": [1.0]})
    found = validate(SPEC, frame, rows, scratch=scratch)
    assert len(found.problems) == 2
    assert places(found.problems[1]) == [(0, "visit", "no-such-column")]


def test_a_name_that_is_taken(scratch, store):
    created(store)
    found = validate(SPEC, units(300), scratch=scratch, existing=store)
    assert found.exists == store.label
    assert found.sound
    assert found.units == 300
    assert store.names() == ["spring"]


def test_outcomes_are_judged_against_the_campaign_that_there_is(scratch, store):
    campaign = created(store)
    table = campaign.assign(units(300)).table
    rows = outcomes(table)
    campaign.record(rows[:100])
    # The file of units is another one by now.
    found = validate(SPEC, units(5, start=9_000), rows, scratch=scratch, existing=store)
    assert (found.recorded.accepted, found.recorded.duplicate) == (200, 100)
    assert campaign.situation().sequence == 3
    assert campaign.verify().sound


def test_a_dry_run_keeps_nothing(store):
    campaign = created(store)
    rows = outcomes(campaign.assign(units(300)).table)
    for _ in range(2):
        tried = campaign.record(rows, dry_run=True)
        assert (tried.accepted, tried.event) == (300, None)
    assert campaign.situation().sequence == 2
    assert campaign.record(rows).accepted == 300
    assert campaign.verify().sound


def test_rows_that_would_be_held(scratch):
    frame = units(300)
    rows = values(frame).with_columns(visit=pl.lit(99.0))
    found = validate(SPEC, frame, rows, scratch=scratch)
    assert found.problems == ()
    assert found.recorded.quarantined == 300
    assert not found.sound


def test_it_says_what_the_calls_say(scratch, store):
    """The same answers as those of the calls themselves."""
    frame = units(300)
    campaign = created(store)
    campaign.assign(frame)
    rows = outcomes(campaign.assign(frame).table)
    odd = pl.concat([rows[:250], pl.DataFrame({"id": ["x"], "visit": [0.5]}), rows[:1]])
    recorded = campaign.record(odd)
    found = validate(SPEC, frame, odd, scratch=scratch).recorded
    assert found == replace(recorded, event=None)


def test_levels_missed_by_case_or_spaces_are_warned_about(scratch):
    levels = ["Rural", "Urban", "Οδός", "other"]
    categories = {"zip": {"levels": levels, "other": True, "missing": "level"}}
    spec = {"features": {"categorical": categories}}
    zips = ["rural ", "URBAN", "Rural", "ΟΔΌΣ", "moon", "Other", "", None]
    frame = units(16).with_columns(zip=pl.Series(zips * 2))
    (said,) = created(scratch, **spec).assign(frame).warnings
    assert said == (
        "zip has texts that differ from its levels only by case or spaces, but count as other: "
        "'rural ', 'URBAN', 'ΟΔΌΣ'; use one spelling in the file, or "
        "declare them as levels before you create the campaign"
    )
    assert validate({**SPEC, **spec, "name": "autumn"}, frame, scratch=scratch).warnings == (said,)


def test_misspelled_levels_of_all_pieces_are_found_and_few_shown(scratch, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 256)
    categories = {"categorical": {"zip": ["u"]}}
    campaign = created(
        scratch, on_unseen_category="other", features=categories, grid={"sizes": [600]}
    )
    zips = ["u "] * 256 + ["u" + " " * (1 + number % 7) for number in range(344)]
    (said,) = campaign.assign(units(600).with_columns(zip=pl.Series(zips))).warnings
    assert "count as other: 'u ', 'u  ', 'u   ', 'u    ', 'u     ', ...; use" in said


@pytest.mark.parametrize(
    ("policy", "sizes", "doubts"),
    [
        ({"kind": "SBPE", "estimate": "pooled"}, [300, 200, 100], ["locks-in"]),
        ({"kind": "RBGL", "estimate": "pooled"}, [300, 200, 100], ["locks-in"]),
        ({"kind": "SBPE", "estimate": "pooled"}, [300, 200], []),
        ({"kind": "SBPE"}, [300, 200, 100], []),
        ({"kind": "EpsilonGreedy", "estimate": "pooled"}, [300, 200, 100], []),
        ({"kind": "ThompsonSampling", "estimate": "pooled"}, [300, 200, 100], []),
        ({"kind": "JointRidge"}, [300, 200, 100], []),
    ],
)
def test_a_policy_that_locks_in_is_doubted(scratch, policy, sizes, doubts):
    found = validate({**SPEC, "policy": policy, "grid": {"sizes": sizes}}, scratch=scratch)
    assert found.sound
    assert [doubt.kind for doubt in found.doubts] == doubts
    assert all("ThompsonSampling" in said and "JointRidge" in said for said in found.warnings)


def test_creating_a_campaign_with_a_doubtful_policy_warns(scratch):
    spec = {**SPEC, "policy": {"kind": "SBPE", "estimate": "pooled"}, "grid": {"sizes": [9, 9, 9]}}
    with pytest.warns(DoubtWarning, match="may lock in") as caught:
        Campaign.create(spec, store=scratch)
    assert [each.message.doubt.kind for each in caught] == ["locks-in"]
    assert caught[0].filename == __file__
