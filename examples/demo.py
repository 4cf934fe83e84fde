"""A campaign in three waves, run through the commands that an analyst would type.

A shop has 60,000 customers and three actions: no e-mail, an e-mail on men's merchandise, or one on
women's. It wants to know which one brings the most profit. The customers, and what they do after
their e-mail, are generated; everything else is as in a real campaign.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl

OUT = Path("out") / "demo"
STORE = OUT / "campaigns.db"
COMMAND = Path(sys.executable).with_name("seqbatch").absolute()
NAME = "mail"
MEN, WOMEN = "men's e-mail", "women's e-mail"
#: Commands that show the campaign in a browser.
IN_A_BROWSER = (
    ("token", "create", "me", "--role", "admin", "--store", str(STORE)),
    ("serve", "--store", str(STORE)),
)
#: A wide terminal shows no more than a narrow one.
WIDTH = 80
SPEC = f"""\
name = "{NAME}"
question = "Which autumn e-mail brings the most profit?"
owner = "crm team"
file = "customers.csv"
seed = 7
unit = "customer"
actions = [
    "none",
    {{name = "{MEN}", cost = 0.05}},
    {{name = "{WOMEN}", cost = 0.05}},
]
control = "none"
currency = "EUR"
randomised = 0.1              # a tenth of each wave, for unbiased results
floor = 0.02
features.numeric = {{recency = "learn", history = "learn", newbie = "raw"}}
grid.sizes = [12000, 18000, 30000]

[metrics]
purchase = {{kind = "yes/no"}}
unsubscribed = {{kind = "yes/no", guardrail = {{at_most_control_plus = 0.005}}}}

[objective]
maximise = "purchase"
value = 12.50                 # what a purchase is worth
less_costs = true             # profit
"""


def customers(count: int) -> pl.DataFrame:
    """Return customers as a shop would export them."""
    random = np.random.default_rng(2008)
    return pl.DataFrame(
        {
            "customer": [f"{number:05d}" for number in range(count)],
            "recency": random.integers(1, 13, count),
            "history": np.round(30 + random.exponential(210, count), 2),
            "newbie": random.integers(0, 2, count),
        }
    )


def answers(given: pl.DataFrame, wave: int) -> pl.DataFrame:
    """Return what customers did within two weeks; of a few, nothing is known."""
    random = np.random.default_rng([7, wave])
    action = given["action"].to_numpy()
    loyal = 1 - given["recency"].to_numpy() / 24
    chance = loyal * (0.05 + 0.035 * (action == MEN) + 0.01 * (action == WOMEN))
    left = 0.002 + 0.001 * (action != "none")
    rows = given.select(
        "customer",
        purchase=pl.Series((random.random(len(given)) < chance).astype(int)),
        unsubscribed=pl.Series((random.random(len(given)) < left).astype(int)),
    )
    return rows.filter(pl.Series(random.random(len(given)) < 0.98))


def say(text: str) -> None:
    """Explain what comes next."""
    print(f"\n# {text}", flush=True)


def run(*words: str) -> None:
    """Show a command and run it in the demo's folder."""
    print(f"$ {shlex.join(['seqbatch', *words])}", flush=True)
    own = {**os.environ, "SEQBATCH_STORE": STORE.name, "COLUMNS": str(WIDTH)}
    subprocess.run([COMMAND, *words], check=True, env=own, cwd=OUT)


def campaign(*words: str) -> None:
    """Show a command of `seqbatch campaign` and run it."""
    run("campaign", *words)


def main() -> None:
    """Create a campaign, run three waves, and show the decision."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    everyone = customers(60_000)
    everyone.write_csv(OUT / "customers.csv")
    print("A shop has 60,000 customers. Should it send them an autumn e-mail, and which?")
    say("One file, spec.toml, declares the campaign: who, what, and how it is measured.")
    (OUT / "spec.toml").write_text(SPEC, encoding="utf-8")
    print(SPEC, end="")
    say("Create the campaign.")
    campaign("create", "spec.toml")
    for wave in (1, 2, 3):
        how = "by what has worked so far, a tenth at random" if wave > 1 else "at random"
        say(f"Wave {wave}: e-mails are assigned {how}.")
        campaign("assign", NAME, "customers.csv", "--draw", "--out", f"emails-{wave}.csv")
        say("Two weeks later: record what the customers did.")
        given = pl.read_csv(OUT / f"emails-{wave}.csv", schema_overrides={"customer": pl.String})
        answered = answers(given.join(everyone, on="customer"), wave)
        answered.write_csv(OUT / f"results-{wave}.csv")
        campaign("record", NAME, f"results-{wave}.csv")
        next_one = "the next one is assigned by what was learned" if wave < 3 else "the last"
        say(f"Close wave {wave}: {next_one}.")
        campaign("close", NAME, "--wave", str(wave))
    say("Verify it: every estimate and every decision is computed again.")
    campaign("verify", NAME)
    say("Write a page to forward, which opens and prints without a network.")
    campaign("report", NAME, "--out", "report.html")
    say("The decision:")
    campaign("findings", NAME)
    say("The same in a browser: create a token, serve, and paste the token at")
    print(f"# http://127.0.0.1:8000/campaigns/{NAME}/findings")
    for words in IN_A_BROWSER:
        print(f"$ {shlex.join([os.path.relpath(COMMAND), *words])}")


if __name__ == "__main__":
    main()
