"""Specs: what is refused, in words that quote the line."""

import re

import pyarrow as pa
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.spec import choices
from seqbatch.campaign.spec import spec as spec_module
from seqbatch.campaign.spec.plan import chosen_policy, recommended_policy, wave_sizes
from seqbatch.campaign.spec.spec import Features
from seqbatch.campaign.spec.template import starting_spec, write_spec
from seqbatch.campaign.spec.toml import parse_spec, read_spec
from seqbatch.errors import InvalidSpecError
from seqbatch.storage import open_store
from tests.campaign.instances import created
from tests.campaign.specs import about
from tests.refusals import refused

GOOD = """\
name = "spring"
actions = ["none", "mail"]
randomised = 0.1
[metrics.visit]
[objective]
maximise = "visit"
[features.numeric]
age = "learn"
spend = {mean = 3, sd = 2}
[features.categorical]
zip = ["a", "b"]
[grid]
sizes = [10, 20]
"""


def test_a_good_one():
    spec = parse_spec(GOOD)
    assert [action.name for action in spec.actions] == ["none", "mail"]
    assert (spec.unit, spec.required_outcomes, spec.floor, spec.model) == (
        ("unit",),
        0.9,
        0.0,
        "per-action",
    )
    assert chosen_policy(spec, None) == {
        "kind": "JointRidge",
        "first": "uniform",
        "start": 5,
        "estimate": "averaged",
        "ties": "random",
        "last": "greedy",
        "waves": "own level",
        "constant": 0,
    }


@pytest.mark.parametrize(("old", "new", "label", "line"), [
    ('name = "spring"', 'name = "no spaces"', "name: must be at most 100 letters from a to z", 1),
    ('["none", "mail"]', '["none"]', "actions: must be a list of at least 2; received", 2),
    ('["none", "mail"]', '["none", "none"]', "all be different; repeated: none", 2),
    ("randomised = 0.1", "randomised = 1.5", "randomised: must be at most 1; received 1.5", 3),
    ("randomised = 0.1", "hold = 0.1", "hold: is not a setting; leave it out", 3),
    ("sd = 2", "sd = 0", "features.numeric.spend.scale.sd: must be above 0; received 0", 9),
    ('"learn"', '"guess"', "features.numeric.age: must be 'learn' or 'raw' or", 8),
    ('["a", "b"]', '["a", "a"]', "levels must all be different", 11),
    ("sizes = [10, 20]", "sizes = [10, 0]", "grid.sizes.1: must be at least 1; received 0", 13),
    ("sizes = [10, 20]", "calendar = true", "grid: calendar = true needs waves", 13),
    ("sizes = [10, 20]", "sizes = [1]\nwaves = 2", "units may be set only with calendar", 14),
    ("randomised = 0.1", "floor = 0.6", "\n  floor must be at most 1 / 2", 3),
])  # fmt: skip
def test_messages_quote_the_offending_line(old, new, label, line):
    text = GOOD.replace(old, new)
    with pytest.raises(InvalidSpecError) as caught:
        parse_spec(text, name="my.toml")
    message = str(caught.value)
    assert re.search(label, message), message
    assert "my.toml" in message
    assert f"line {line}: {text.splitlines()[line - 1].strip()}" in message


@pytest.mark.parametrize(("old", "new", "label"), [
    ('["a", "b"]', "{hash = 0}", "features.categorical.zip.hash: must be at least 1"),
    ('["a", "b"]', '"a"', r"features.categorical.zip: .* a list of levels, or {hash = 16}"),
    ('["a", "b"]', '["a", 1]', "features.categorical.zip.levels.1: must be text in quotes; .* 1"),
    ("{mean = 3, sd = 2}", "{mean = 3}", "features.numeric.spend.scale.sd: is missing"),
    ("{mean = 3, sd = 2}", "3", r"features.numeric.spend: must be 'learn' or 'raw' or {mean = "),
    ('"learn"', '"guess"', "features.numeric.age: .* 'learn' or 'raw'"),
])  # fmt: skip
def test_one_mistake_is_one_problem(old, new, label):
    with pytest.raises(InvalidSpecError) as caught:
        parse_spec(GOOD.replace(old, new))
    assert re.search(label, str(caught.value)), caught.value
    assert "spec.toml: 1 problem; nothing" in str(caught.value)


@pytest.mark.parametrize(("extra", "field"), [
    ('control = "call"', "control"),
    ("floor = 0.6", "floor"),
    ('model = "shared"', "model"),
    ('unit = "age"', "unit"),
    ('unit = "action"', "unit"),
    ('unit = "event"', "unit"),
    ('unit = "p(mail)"', "unit"),
    ('unit = "visit"', "metrics.visit"),
])  # fmt: skip
def test_rules_across_lines(extra, field):
    with refused("invalid-spec", field=field):
        parse_spec(extra + "\n" + GOOD)


def test_files_that_are_not_declarations(tmp_path):
    with refused("no-such-file"):
        read_spec(tmp_path / "none.toml")
    with refused("not-toml", match="line 2"):
        parse_spec('name = "a"\nactions = [;\n')


@pytest.mark.parametrize(("name", "content"), [
    ("customers.csv", b"name=x\n1\n"),
    ("customers.txt", b"id;age\n1;2\n"),
    ("customers.parquet", b"PAR1\xff\xfe"),
])  # fmt: skip
def test_a_table_in_place_of_the_spec_is_called_one(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with refused("files-swapped"):
        read_spec(tmp_path / name)


@pytest.mark.parametrize(("line", "advice"), [
    ("floor = 0,01", "Write 0.01 with a point."),
    ("floor = 0,01  # low", "Write 0.01 with a point."),
    ("name = spring", 'Put text in straight quotes: name = "spring".'),
    ("name = “spring”", 'Put text in straight quotes (").'),
    ('control = "none"\ncontrol = "none"', "control is set twice; leave one of the two out."),
    ("[features]\n[features]", "features is set twice; leave one of the two out."),
    ("shared = True", "Write true in small letters."),
    ("name: spring", "Write name = ... with an equals sign."),
    ('name = "spring', "Close the quotes on the same line."),
    ("actions = [1, 2", "Close the list with ]."),
])  # fmt: skip
def test_slips_of_the_pen_are_met_with_a_remedy(line, advice):
    with pytest.raises(InvalidSpecError) as refused:
        parse_spec(f"{line}\nseed = 1\n")
    assert str(refused.value).splitlines()[-1].strip() == advice


def test_policies():
    spec = parse_spec(GOOD + '[policy]\nkind = "ThompsonSampling"\nsamples = 16\n')
    made = chosen_policy(spec, None)
    assert (made["first"], made["ties"], made["samples"]) == ("uniform", "random", 16)
    fixed = parse_spec(GOOD + '[policy]\nkind = "SBUCB"\nfirst = "fixed"\n')
    assert chosen_policy(fixed, None)["first"] == "fixed"
    with refused("invalid-spec", field="policy.kind"):
        chosen_policy(parse_spec(GOOD + '[policy]\nkind = "Oracle"\n'), None)
    with refused("invalid-spec", field="policy.gamma"):
        chosen_policy(parse_spec(GOOD + '[policy]\nkind = "SBPE"\ngamma = 1\n'), None)


def test_greedy_policies_avoid_what_they_know_nothing_of():
    planned = {"kind": "SBPE", "first": "uniform", "ties": "random", "unknown": "zero"}
    assert chosen_policy(parse_spec(GOOD), planned)["unknown"] == "avoid"
    declared = parse_spec(GOOD + '[policy]\nkind = "SBPE"\nunknown = "zero"\n')
    assert chosen_policy(declared, planned)["unknown"] == "zero"


@pytest.mark.parametrize(
    ("old", "new"), [("holdout = 0.1", "randomised"), ("missing = 0.9", "required_outcomes")]
)
def test_settings_that_were_renamed_are_refused_with_their_new_name(old, new):
    name = old.partition(" ")[0]
    with refused("invalid-spec", field=name, match=new):
        parse_spec(f"{old}\n{GOOD}")


def test_scaling_is_learned_from_a_random_wave_alone(tmp_path):
    store = open_store(tmp_path / "c.db")
    with refused("invalid-spec", field="features"):
        created(store, policy={"kind": "SBUCB", "first": "fixed"})
    assert store.names() == []
    store.close()


def test_a_plan_says_the_sizes_and_the_policy():
    wanted = "plan = {units = 900, batches = 2, max_batches = 2, effect = 0.3, noise = 2.0}"
    spec = parse_spec(GOOD.replace("sizes = [10, 20]", wanted))
    sizes, policy = wave_sizes(spec)
    assert sum(sizes) == 900
    assert len(sizes) == 2
    assert policy["first"] == "uniform"
    for wrong, field in (
        ("plan = {units = 900, actions = 3}", "grid.plan.actions"),
        ("plan = {units = 900, colour = 3}", "grid.plan.colour"),
        ("plan = {units = 2, batches = 3}", "grid.plan"),
    ):
        with refused("invalid-spec", field=field):
            wave_sizes(parse_spec(GOOD.replace("sizes = [10, 20]", wrong)))


def test_the_policy_where_nothing_is_said():
    assert recommended_policy(parse_spec(GOOD))["kind"] == "JointRidge"
    spec = parse_spec(GOOD)
    bare = spec.model_copy(update={"features": Features()})
    assert recommended_policy(bare)["kind"] == "Lookahead"


def test_the_example_declaration_is_a_good_one(tmp_path):
    spec = parse_spec(starting_spec())
    assert spec.features.columns == ("age", "region")
    write_spec(tmp_path / "spec.toml", seed=1)
    assert (tmp_path / "spec.toml").read_text(encoding="utf-8") == starting_spec(seed=1)
    with refused("file-exists", field="out"):
        write_spec(tmp_path / "spec.toml", name="other")
    write_spec(tmp_path / "spec.toml", name="other", force=True)
    assert '"other"' in (tmp_path / "spec.toml").read_text(encoding="utf-8")


def test_an_outcome_is_no_feature():
    text = GOOD.replace('age = "learn"', 'age = "learn"\nvisit = "raw"')
    with refused("invalid-spec", field="metrics.visit.column"):
        parse_spec(text)


def test_a_campaign_without_a_seed_draws_one_and_keeps_it(store, monkeypatch):
    monkeypatch.setattr(spec_module, "fresh_seed", choices.fresh_seed)
    declared = {
        "actions": ["none", "mail"], "grid": {"sizes": [4]}, **about("y"),
    }  # fmt: skip
    made = [Campaign.create({**declared, "name": name}, store=store) for name in "ab"]
    seeds = [campaign.situation().spec.seed for campaign in made]
    # Both are small with a probability of 2^-42.
    assert seeds[0] != seeds[1]
    assert min(seeds) > 1 << 32
    assert [campaign.events()[0].payload["spec"]["seed"] for campaign in made] == seeds
    made[0].assign(pa.table({"unit": ["a", "b"]}))
    assert made[0].verify().sound
