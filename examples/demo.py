"""A campaign in three waves, run through the commands that an analyst would type.

A shop has 64,000 customers and three actions: no e-mail, an e-mail on men's merchandise, or one on
women's. The outcome is whether a customer visits the shop. The data are those of Hillstrom's
randomised e-mail campaign of 2008 if its file is available (see docs/lab.md), and generated data of
the same shape otherwise.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl

from seqbatch.datasets import MissingDatasetError
from seqbatch.datasets.files import public

OUT = Path("out") / "demo"
STORE = OUT / "campaigns.db"
COMMAND = Path(sys.executable).with_name("seqbatch")
#: Commands that show the campaign in a browser.
IN_A_BROWSER = (
    ("token", "create", "me", "--role", "admin", "--store", str(STORE)),
    ("serve", "--store", str(STORE)),
)
ACTIONS = ("No E-Mail", "Mens E-Mail", "Womens E-Mail")
WAVES = 3
#: Rough guesses before the campaign: 10 to 20% of customers visit, which gives a standard deviation
#: of about 0.35, and the best choice of e-mails may bring 3 more visits per 100 customers.
EFFECT, NOISE = 0.03, 0.35
FEATURES = 11
SPEC = """\
name = "spring-mail"
seed = 2026
unit = "customer"
actions = ["No E-Mail", "Mens E-Mail", "Womens E-Mail"]
control = "No E-Mail"
randomised = 0.1
floor = 0.02
required_outcomes = 0.25    # a replay knows about one outcome in three

[metrics.visit]
kind = "yes/no"
unit = "visits"

[objective]
maximise = "visit"

[features.numeric]
recency = "learn"
history = "learn"
mens = "raw"
womens = "raw"
newbie = "raw"

[features.categorical]
zip_code = ["Rural", "Surburban", "Urban"]
channel = ["Multichannel", "Phone", "Web"]

[grid.plan]
units = {units}
batches = {waves}
max_batches = {waves}
effect = {effect}
noise = {noise}
"""


def customers() -> tuple[pl.DataFrame, str]:
    """Return every customer with the logged arm and visit, and the source of the data."""
    try:
        table = pl.read_csv(public("hillstrom"), infer_schema_length=None)
        source = "the 64,000 customers of Hillstrom's randomised e-mail campaign"
    except MissingDatasetError:
        table, source = generated(64_000), "64,000 generated customers (Hillstrom's file is absent)"
    ids = pl.Series("customer", [f"{number:05d}" for number in range(len(table))])
    return table.with_columns(ids), source


def generated(count: int) -> pl.DataFrame:
    """Return customers of the same shape, whose arms were drawn at random."""
    random = np.random.default_rng(2008)
    mens = random.random(count) < 0.55
    womens = ~mens | (random.random(count) < 0.2)
    arm = random.integers(0, 3, count)
    rate = 0.1 + 0.06 * (arm == 1) + (arm == 2) * np.where(womens, 0.07, 0.01)
    return pl.DataFrame(
        {
            "recency": random.integers(1, 13, count),
            "history": np.round(30 + random.exponential(210, count), 2),
            "mens": mens.astype(int),
            "womens": womens.astype(int),
            "newbie": random.integers(0, 2, count),
            "zip_code": random.choice(["Rural", "Surburban", "Urban"], count, p=[0.15, 0.45, 0.4]),
            "channel": random.choice(["Multichannel", "Phone", "Web"], count, p=[0.12, 0.44, 0.44]),
            "segment": np.array(ACTIONS)[arm],
            "visit": (random.random(count) < rate).astype(int),
        }
    )


def say(text: str) -> None:
    """Explain what comes next."""
    print(f"\n# {text}", flush=True)


def run(*words: str | Path) -> None:
    """Show a command and run it."""
    shown = shlex.join(["seqbatch", *map(str, words)])
    print(f"$ {shown}", flush=True)
    store = {**os.environ, "SEQBATCH_STORE": str(STORE)}
    subprocess.run([COMMAND, *map(str, words)], check=True, env=store)


def campaign(*words: str | Path) -> None:
    """Show a command of `seqbatch campaign` and run it."""
    run("campaign", *words)


def main() -> None:
    """Plan and create a campaign, run three waves, and show the results."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    everyone, source = customers()
    print(f"A campaign in three waves with {source}.")
    print("Which e-mail brings which customers to the shop? At the start this is unknown.")
    say("How many waves, and how large? Guess the effect and the noise, and ask the planner.")
    asked: dict[str, float] = {
        "units": len(everyone),
        "actions": len(ACTIONS),
        "features": FEATURES,
        "batches": WAVES,
        "max-batches": WAVES,
        "effect": EFFECT,
        "noise": NOISE,
    }
    options = [word for name, value in asked.items() for word in (f"--{name}", f"{value:g}")]
    run("plan", *options, "--out", OUT / "plan.html")
    say("The plan: three waves, the smallest first. The spec declares everything in advance,")
    print("# and takes the sizes of the waves and the policy from the same plan:")
    spec = SPEC.format(units=len(everyone), waves=WAVES, effect=EFFECT, noise=NOISE)
    (OUT / "spec.toml").write_text(spec, encoding="utf-8")
    print(spec)
    units = OUT / "customers.csv"
    everyone.drop("segment", "visit").write_csv(units)
    campaign("validate", OUT / "spec.toml", units)
    campaign("create", OUT / "spec.toml")
    for wave in range(1, WAVES + 1):
        how = "at random" if wave == 1 else "by the results of earlier waves, 10% at random"
        say(f"Wave {wave}: customers are drawn from the whole list, and e-mails assigned {how}.")
        answers, outcomes = (OUT / f"{name}-{wave}.csv" for name in ("assignments", "outcomes"))
        campaign("assign", "spring-mail", units, "--draw", "--out", answers)
        say("Two weeks later: visits are known for customers whose logged e-mail is the same.")
        given = pl.read_csv(answers, schema_overrides={"customer": pl.String})
        replayed = given.join(everyone, on="customer").filter(pl.col("action") == pl.col("segment"))
        replayed.select("customer", "visit").write_csv(outcomes)
        campaign("record", "spring-mail", outcomes)
        campaign("close", "spring-mail", "--wave", str(wave))
    say("The status. Weighted means estimate the visit rate if every customer got an e-mail;")
    print("# later waves send most customers the e-mail that works for them.")
    campaign("status", "spring-mail")
    say("The findings: their intervals are valid although later waves depend on earlier ones.")
    campaign("findings", "spring-mail")
    say("Verify the campaign: compute all hashes, estimates and decisions again from the rows.")
    campaign("verify", "spring-mail")
    say("The report: a page to forward, the answer first. It opens and prints without a network.")
    campaign("report", "spring-mail", "--out", OUT / "report.html")
    say("To see the campaign in a browser, create a token, serve the store, open the printed")
    print("# address, and paste the token there.")
    for words in IN_A_BROWSER:
        print(f"$ {shlex.join([os.path.relpath(COMMAND), *words])}")


if __name__ == "__main__":
    main()
