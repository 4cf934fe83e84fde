"""`seqbatch plan`: what a person types and sees."""

import json
import os
import shlex

import numpy as np
import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.storage import open_store
from tests.cli.test_cli import run
from tests.cli.test_narrow import run as run_narrow

SMALL = ("plan", "--units", "5000", "--actions", "2", "--max-batches", "2")

#: What is said about plans is the same with few trials.
pytestmark = pytest.mark.usefixtures("few_trials")


@pytest.mark.slow
def test_a_plan_in_words_and_tables(tmp_path):
    out = tmp_path / "plan.html"
    text = run(*SMALL, "--features", "3", "--out", str(out)).stdout
    assert "5,000 units, 2 actions" in text
    assert "online" in text
    assert "If the true effect differs from the guess" in text
    page = out.read_text(encoding="utf-8")
    assert all(part in page for part in ("image/svg+xml", "gain earned", "Assumed: 3 features"))
    values = json.loads(run(*SMALL, "--features", "3", "--json").stdout)
    assert sum(values["sizes"]) == 5_000
    assert values["table"][-1]["batches"] is None


def test_a_file_that_is_there_stays_unless_forced(tmp_path):
    out, pipe = tmp_path / "plan.svg", tmp_path / "pipe.svg"
    out.write_text("mine")
    os.mkfifo(pipe)
    words = (*SMALL, "--features", "3", "--out")
    assert "plan.svg, which exists" in run(*words, str(out), code=2).stderr
    assert out.read_text() == "mine"
    assert "must be a regular file" in run(*words, str(pipe), "--force", code=2).stderr
    same = ("plan", "--units", "9", "--actions", "2", "--sample", str(out), "--out", str(out))
    assert "a file other than sample" in run(*same, "--force", code=2).stderr
    assert run(*words, str(out), "--force").stdout.endswith("plan.svg\n")
    assert out.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.slow
def test_a_plan_from_a_sample(tmp_path):
    rng = np.random.default_rng(1)
    table = pl.DataFrame(
        {
            "customer": [f"c{i}" for i in range(300)],
            "age": rng.integers(18, 80, 300),
            "region": rng.choice(["north", "south", "west"], 300),
        }
    )
    file = tmp_path / "customers.csv"
    table.write_csv(file)
    text = run(*SMALL, "--sample", str(file), "--columns", "age,region").stdout
    assert "whose 4 columns vary in 3 directions (1 redundant" in " ".join(text.split())
    wrong = run(*SMALL, "--sample", str(file), "--columns", "age,height", code=2)
    assert "each of features must be one of the file's columns" in wrong.stderr


def test_a_plan_that_starts_from_sums(tmp_path):
    random = np.random.default_rng(0)
    spec = {"name": "winter", "seed": 1, "actions": ["none", "mail"], "grid": {"sizes": [90]},
            "metrics": {"sales": {"kind": "amount", "unit": "EUR"}}, "currency": "EUR",
            "objective": {"maximise": "sales"}, "features": {"numeric": {"age": "learn"}},
            }  # fmt: skip
    file, ids = tmp_path / "sums.json", [f"u{number}" for number in range(90)]
    winter = Campaign.create(spec, store=open_store(tmp_path / "c.db"))
    winter.assign(pl.DataFrame({"unit": ids, "age": random.normal(40, 9, 90)}))
    winter.record(pl.DataFrame({"unit": ids, "sales": random.standard_normal(90)}))
    winter.close()
    winter.export(file, what="sums")
    asked = ("plan", "--units", "400", "--batches", "2", "--max-batches", "2", "--sums", str(file))
    words = run(*asked, "--drift", "0.05").stdout
    assert "using the history" in words.splitlines()[1]
    assert "history of 90 units, from which coefficients have drifted by 0.05" in " ".join(
        words.split()
    )
    made = run(*asked, "--actions", "mail,fax", "--json").stdout
    assert json.loads(made)["history"]["drift"] == "learn"
    for wrong in (("--actions", "fax"), ("--sums", str(tmp_path / "c.db"))):
        assert run(*asked, *wrong, code=2).stderr.startswith(f"seqbatch: {wrong[0]} must be")
    assert run(*asked[:7], "--actions", "2", "--drift", "0.1", code=2).stderr.startswith(
        "seqbatch: --drift must be given with --sums"
    )


def test_what_may_be_no_feature_is_asked_about(tmp_path):
    file = tmp_path / "history.csv"
    rows = pl.DataFrame({
        "number": range(100, 130), "age": [20 + n % 7 for n in range(30)],
        "treatment": ["mail", "none"] * 15, "spend": [n % 5 for n in range(30)],
    })  # fmt: skip
    rows.write_csv(file)
    said = " ".join(run(*SMALL, "--sample", str(file), code=2).stderr.split())
    assert "columns must be given" in said
    assert "number (different in every row, as ids are)" in said
    assert "treatment (an outcome or a treatment by its name)" in said
    assert "Name the features (columns), or the others (outcomes)" in said
    declared = ("--outcomes", "treatment,spend")
    said = run(*SMALL, "--sample", str(file), *declared, "--columns", "age,spend", code=2).stderr
    assert "without outcomes and treatments" in said
    said = run(*SMALL, "--sample", str(file), "--outcomes", "sales", code=2).stderr
    assert "outcomes must be among the file's columns" in " ".join(said.split())
    said = run(*SMALL, "--features", "2", "--outcomes", "sales", code=2).stderr
    assert "given only with --sample" in said
    used = json.loads(
        run(*SMALL, "--sample", str(file), "--outcomes", "number,treatment,spend", "--json").stdout
    )
    assert used["sample"]["columns"] == 1


def test_what_the_campaign_does_is_told_to_the_plan():
    words = ("--features", "1", "--randomised", "0.2", "--floor", "0.05", "--missing", "0.1")
    values = json.loads(run(*SMALL, *words, "--delay", "1", "--json").stdout)
    told = {name: values[name] for name in ("randomised", "floor", "missing", "delay")}
    assert told == {"randomised": 0.2, "floor": 0.05, "missing": 0.1, "delay": 1}
    assert "floor must be" in run(*SMALL, "--features", "1", "--floor", "0.6", code=2).stderr


@pytest.mark.slow
def test_the_trade_is_written_and_told(tmp_path):
    file = tmp_path / "trade.svg"
    words = (*SMALL, "--features", "1", "--batches", "2", "--randomised", "0.1", "--missing", "0.1")
    text = run(*words, "--trade", str(file)).stdout
    assert file.read_text(encoding="utf-8").startswith("<svg")
    assert "10% *" in text
    assert text.endswith("trade.svg\n")
    assert "trade.svg, which exists" in run(*words, "--trade", str(file), code=2).stderr
    told = json.loads(run(*words, "--trade", str(file), "--force", "--json").stdout)["trade"]
    assert [point["randomised"] for point in told["points"]][:2] == [0.0, 0.02]
    both = ("--out", str(tmp_path / "a.svg"), "--trade", str(tmp_path / "a.svg"))
    assert "trade must be a file other than out" in run(*words, *both, code=2).stderr


def test_what_cannot_be_detected_is_said():
    said = " ".join(run(*SMALL, "--features", "1", "--detect", "0.001", code=2).stderr.split())
    assert "--detect must be at least 0.0929" in said
    assert "To detect it, plan for about" in said


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--features", "2"), ("--dim", "3")])
def test_tables_fit_80_columns_with_whole_numbers(words, tmp_path):
    asked = ("--units", "1000000000000000", "--actions", "2", "--effect", "5", "--batch-cost", "9")
    asked += ("--effect-spread", "1")
    text = run_narrow("plan", *asked, *words, "--max-batches", "2", folder=tmp_path)
    assert "5,000,000,000,000,000" in text


@pytest.mark.slow
def test_waves_and_prior_and_worst_case():
    text = run(
        *SMALL, "--features", "2", "--waves", "1000,4000", "--effect", "0.1", "--effect", "0.4"
    ).stdout
    assert "gains 0.1 or 0.4 per unit" in text
    worst = run(*SMALL, "--dim", "4", "--contexts", "adversarial").stdout
    assert "can be bounded, but not predicted" in worst
    assert "guarantee" in worst
    for words, message in (
        (("--features", "100"), "features must be at most"),
        (("--features", "2", "--waves", "10,x"), "waves must be whole numbers separated by commas"),
        (("--features", "2", "--effect", "-1"), "effect must be a finite number above 0"),
        (("--dim", "2", "--out", "plan.pdf"), "out must be a .png, .svg or .html file"),
    ):
        assert message in run(*SMALL, *words, code=2).stderr


def test_who_may_get_what_is_told_in_shares():
    words = (*SMALL, "--features", "1", "--eligible", "1,0.5", "--capacity", "1,0.2", "--json")
    values = json.loads(run(*words).stdout)
    assert (values["eligible"], values["capacity"]) == ([1.0, 0.5], [1.0, 0.2])
    wrong = run(*SMALL, "--features", "1", "--capacity", "1,few", code=2).stderr
    assert "capacity must be numbers separated by commas" in wrong


CAMPAIGN = (
    "plan", "--customers", "20000", "--actions", "none,mail", "--smallest-lift", "1pp", "--waves",
    "2",
)  # fmt: skip


def test_a_plan_in_the_users_terms_fits_a_page_and_leads_to_a_spec(tmp_path):
    out, spec = tmp_path / "plan.html", tmp_path / "spec.toml"
    (tmp_path / "customers.csv").write_text(
        "customer_id,age\n" + "".join(f"c{n},{n % 60 + 18}\n" for n in range(90))
    )
    money = ("--base-rate", "4%", "--value", "12EUR", "--cost", "0.01", "--after", "90000")
    text = run_narrow(*CAMPAIGN, *money, "--out", out.name, folder=tmp_path)
    lines = text.splitlines()
    assert len(lines) < 60
    assert "--details" in lines[-2]
    assert "max-width" in out.read_text(encoding="utf-8")
    assert "If nothing lifts, you lose" in text
    # The next command is one line that works as printed.
    [then] = [line for line in lines if line.startswith("Next: seqbatch ")]
    words = shlex.split(then.removeprefix("Next: seqbatch "))
    words[words.index("customers.csv")] = str(tmp_path / "customers.csv")
    sizes = json.loads(run(*words, "--out", str(spec), "--json").stdout)["sizes"]
    assert f"Assign {sizes[0]:,} and {sizes[1]:,} customers in 2 waves" in " ".join(text.split())
    written = spec.read_text(encoding="utf-8")
    assert 'actions = ["none"' in written
    assert "value = 12" in written
    assert "\npurpose = {after = 90000}" in written


def test_past_orders_say_what_a_customer_spends(tmp_path):
    file = tmp_path / "orders.csv"
    file.write_text("order;amount\n1;20,50\n2;1.099,00\n3;45,00\n")
    asked = ("--history", str(file), "--column", "amount", "--zeros", "90%")
    words = [word if word != "1pp" else "0.90EUR" for word in CAMPAIGN]
    values = json.loads(run(*words, *asked, "--json").stdout)
    assert values["mean"] == pytest.approx((20.5 + 1099 + 45) / 3 / 10)
    assert values["base_rate"] is None
    assert "--zeros must be given" in run(*words, *asked[:4], code=2).stderr
    wrong = ("--history", str(file), "--column", "price")
    assert "(order, amount)" in run(*words, *wrong, code=2).stderr
    # The orders are numbered: only the amounts may be outcomes.
    guessed = run(*words, *asked[:2], *asked[4:], "--json")
    assert json.loads(guessed.stdout) == values
    assert "column amount" in guessed.stderr
    # Orders and refunds of a customer are added up: 20.50, 1099 and 45.
    file.write_text(
        "customer;amount\na;20,50\nb;1.000,00\nb;99,00\nc;65,00\nc;-20,00\nd;9,00\nd;-9,00\n"
    )
    added = run(*words, *asked[:4], "--json")
    assert "each customer: 4 customers" in added.stderr
    assert json.loads(added.stdout)["mean"] == pytest.approx((20.5 + 1099 + 45) / 4)
    file.write_text("price;amount\n9,5;20,50\n7;1.099,00\n3;45,00\n")
    assert "several" in run(*words, *asked[:2], *asked[4:], code=2).stderr


def test_the_example_of_a_plan_works_as_people_type_it():
    typed = (
        "plan --customers 50000 --base-rate 4 % --smallest-lift 0.5 pp --value 12 EUR "
        "--cost mail=0.01 --waves 2 --json"
    )
    values = json.loads(run(*typed.split()).stdout)
    assert values["actions"] == ["none", "mail"]
    assert (values["value"], values["currency"]) == (12.0, "EUR")
    assert (values["base_rate"], values["smallest_lift"]) == (0.04, 0.005)
    # The first options are those of a campaign.
    shown = run("plan", "--help").stdout
    assert shown.index("--customers") < shown.index("For researchers") < shown.index("--kappa")


def test_options_of_the_two_kinds_of_plan_are_kept_apart():
    assert (
        "--effect must be left out with --customers"
        in run(*CAMPAIGN, "--base-rate", "4%", "--effect", "0.1", code=2).stderr
    )
    assert (
        "--value must be left out with --units"
        in run(*SMALL, "--features", "1", "--value", "12EUR", code=2).stderr
    )
    assert "--customers 50000" in run("plan", "--actions", "3", code=2).stderr
