"""What is declared of outcomes is what is drawn, and what is wrong with it is said at once."""

import re
from dataclasses import replace

import numpy as np
import pytest

from seqbatch.campaign.files.reading import Source
from seqbatch.campaign.rehearsal.example_truth import write_example
from seqbatch.campaign.rehearsal.population import World, population
from seqbatch.campaign.rehearsal.truth import Spread, read_truth
from seqbatch.campaign.rehearsal.undeclared_truths import truths_of
from seqbatch.campaign.spec.metrics import Metric
from seqbatch.campaign.spec.spec import WaveGrid
from seqbatch.campaign.steps.create import prepare
from seqbatch.errors import InvalidArgumentError, InvalidSpecError
from seqbatch.planning.outcome_scale import OutcomeScale
from tests.campaign.rehearsal.specs import LIMITED, LOGGED, MAIL, TRIAL, listed


def worlds(spec, truth, units):
    """Return the units' values, and the world of the null and of the declared truth."""
    now = prepare(spec).now
    drawn = population(now, Source(units))
    declared = read_truth(truth, now, drawn.levels)
    return [World.of(one, now, drawn) for one in truths_of(now, [declared])]


def expected(units, wave):
    """Return the true profit of every action for each unit, from the words of the truth."""
    rows = []
    for region, phone in units.select("region", "phone").iter_rows():
        none, mail, call = (0.1, 0.12, 0.14)[wave - 1], 0.2, 0.15
        if region == "north":
            none, mail = 0.3, (0.5, 0.4, 0.4)[wave - 1]
        if region == "north" and phone == "yes":
            call = 0.6
        rows.append([12 * none, 12 * mail - 0.5, 12 * call - 4])
    return np.array(rows)


TRUTH = {
    "none": [0.1, 0.12, 0.14], "mail": 0.2, "call": 0.15,
    "segments": [
        {"where": {"region": "north"}, "none": 0.3, "mail": [0.5, 0.4, 0.4]},
        {"where": {"region": "north", "phone": True}, "call": 0.6},
    ],
}  # fmt: skip
PROFIT = {**LIMITED, "objective": {"maximise": "visit", "value": 12, "less_costs": True}}


def test_means_are_those_of_the_words_unit_by_unit():
    units = listed(300)
    null, world = worlds(PROFIT, TRUTH, units)
    assert null.truth.name == "no action differs"
    may = units["phone"].to_numpy() == "yes"
    for wave in (1, 2, 3):
        own = expected(units, wave)
        assert np.allclose(world.rewards(wave), own)
        # Calls only reach units with a phone: means and lifts are theirs.
        means = [own[:, 0].mean(), own[:, 1].mean(), own[may, 2].mean()]
        lifts = [0, (own[:, 1] - own[:, 0]).mean(), (own[may, 2] - own[may, 0]).mean()]
        assert np.allclose(world.means(wave), means)
        assert np.allclose(world.lifts(wave), lifts)
        assert np.allclose(null.rewards(wave), own[:, [0]] - np.array([0, 0.5, 4]))
        assert not world.nothing_in("region", "south", 2)
    assert not world.steady(3)
    assert world.steady(1)
    assert not world.same_for_all
    assert null.same_for_all
    assert null.nothing_in("region", "north", 1) is False  # it costs something


@pytest.mark.parametrize(
    ("spread", "metric", "mean", "sd"),
    [
        (Spread(sd=3.0), Metric(name="y", kind="amount"), 5.0, 3.0),
        (Spread(sd=2.0), Metric(name="y", kind="amount", range=(0, 10)), 4.0, 2.0),
        (Spread(buyers=0.2, log_sd=0.5), Metric(name="y", kind="amount"), 2.0, 4.656),
    ],
)
def test_amounts_have_their_mean_and_spread(spread, metric, mean, sd):
    drawn = spread.draw(np.random.default_rng(1), np.full(200_000, mean), metric)
    assert drawn.mean() == pytest.approx(mean, abs=5 * sd / 200_000**0.5)
    assert drawn.std() == pytest.approx(sd, rel=0.02)
    if metric.range:
        assert (drawn.min(), drawn.max()) >= (0, 0)
        assert drawn.max() <= 10
    capped = Metric(**{**metric.model_dump(), "cap": 6.0})
    [counted] = spread.counted(np.array([mean]), capped)
    assert counted == pytest.approx(np.minimum(drawn, 6.0).mean(), abs=10 * sd / 200_000**0.5)


def test_missing_and_late_outcomes_depend_on_the_action():
    shares = {"missing": {"mail": 0.5}, "late": {"none": 0.2, "mail": 0.4}}
    _, world = worlds(MAIL, {"none": 0.3, **shares}, listed(50))
    actions = np.repeat([0, 1, 2], 20_000)
    intime, late = world.truth.arrivals(np.random.default_rng(2), actions)
    assert not (intime & late).any()
    found = [[own[actions == a].mean() for a in range(3)] for own in (intime, late)]
    assert np.allclose(found, [[0.8, 0.3, 1.0], [0.2, 0.2, 0.0]], atol=0.02)


def test_the_plan_gives_a_truth():
    now = prepare(MAIL).now
    grid = WaveGrid(plan={"units": 190, "effect": [0.02, 0.04, 0.08], "noise": 0.3})
    null, plan = truths_of(replace(now, spec=now.spec.model_copy(update={"grid": grid})), [])
    assert null.means["visit"].tolist() == [[pytest.approx(0.1)] * 3]
    # The effect is the gain of the best action over a random one of three.
    assert plan.means["visit"].tolist() == [
        [pytest.approx(0.1), pytest.approx(0.16), pytest.approx(0.1)]
    ]
    assert plan.name == "the plan's effect: mail brings 6 more visits per 100 customers"


def test_a_plan_with_a_base_rate_gives_a_truth_whatever_a_yes_is_worth():
    now = prepare(PROFIT).now
    grid = WaveGrid(plan={"units": 190, "base_rate": "10%", "effect": 0.04})
    planned = replace(now, spec=now.spec.model_copy(update={"grid": grid}))
    null, plan = truths_of(planned, [])
    assert null.means["visit"].tolist() == [[0.1] * 3]
    assert plan.means["visit"].tolist() == [[0.1, pytest.approx(0.16), 0.1]]


@pytest.mark.parametrize("spec", [MAIL, TRIAL, PROFIT, LOGGED], ids=lambda spec: spec["name"])
def test_a_written_example_fits_its_spec(tmp_path, spec):
    now = prepare(spec).now
    file = tmp_path / "a.truth.toml"
    write_example(file, now)
    levels = {"region": ["north", "south"]}
    made = read_truth(file, now, levels)
    main = now.spec.reward.terms[0].name
    better = (made.means[main] - made.means[main][:, [0]]) * now.spec.reward.sign
    assert (better[:, 1:] > 0).all()
    # Every setting that is commented out can be used; explanations are lines of several words.
    text = re.sub(r"(?m)^# (?=\[|\S+ = )", "", file.read_text(encoding="utf-8"))
    file.write_text(text, encoding="utf-8")
    full = read_truth(file, now, levels)
    assert full.missing[-1] == full.late[-1] == 0.1
    assert len(full.segments) == ("region" in now.spec.features.categorical)
    with pytest.raises(InvalidArgumentError, match="a new file"):
        write_example(file, now)


def test_a_written_example_has_what_a_plan_assumed(tmp_path):
    now = prepare(MAIL).now
    file = tmp_path / "a.truth.toml"
    write_example(file, now, OutcomeScale.of(base_rate="10%", smallest_lift="5pp"))
    assert read_truth(file, now, {}).means["visit"].tolist() == [[0.1, pytest.approx(0.15), 0.1]]
    assert "lifted by 5 points to 15%" in file.read_text(encoding="utf-8").replace("\n# ", " ")


@pytest.mark.parametrize(
    ("spec", "truth", "problems"),
    [
        (
            MAIL,
            {"none": 4, "mial": 0.1, "call": [0.1, 0.2], "missing": {"mail": 1.5}, "late": "x",
             "segments": [{"where": {"region": "nort"}, "mail": 0.2},
                          {"where": {"age": 20}, "mail": 0.2}, {"mail": 0.3}],
             "metrics": {"lef": {"none": 0.1}, "left": {"all": 0.1}}, "spread": {"sd": 3}},
            [
                "none: must be from 0 to 1; received 4 (0.04 is 4%)",
                "mial: must be an action (none, mail, call) or one of name, metrics, segments,",
                "call: must be a number, or a list of 3, one for each wave; received 2",
                "missing.mail: must be a share, from 0 to below 1; received 1.5",
                "late: must be a share, from 0 to below 1; received 'x'",
                "segments 1: no unit has region = 'nort'; units have north, south",
                "segments 2: age must be a column of categories or of yes and no (region)",
                'segments 3: where is needed, such as where = {region = "north"}',
                "metrics.lef: must be a metric (visit, left)",
                "metrics.left.all: must be an action (none, mail, call)",
                "spread.: must be a metric of amounts (there are none)",
            ],
        ),
        (MAIL, {"mail": 0.1}, ["none: the control's mean of visit is needed, such as none = 0.04"]),
        (TRIAL, {"old": 5}, ["spread: say how the amounts of pain vary: {sd = 20}, or {buyers = "]),
        (TRIAL, {"old": 9.9, "spread": {"sd": 2}}, ["spread.pain.sd: 2 is too large for means "]),
        (TRIAL, {"old": 5, "spread": {"buyers": 2}}, ["spread.pain.buyers: must be a share above"]),
    ],
)  # fmt: skip
def test_all_problems_of_a_truth_are_told_at_once(spec, truth, problems):
    with pytest.raises(InvalidSpecError) as caught:
        worlds(spec, truth, listed(40))
    said = str(caught.value)
    for problem in problems:
        assert f"  {problem}" in said
    assert said.startswith(f"truth: {len(problems)} problem")
