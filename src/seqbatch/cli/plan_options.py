"""The options of the command that plans an experiment, in groups."""

from pathlib import Path
from typing import Annotated

import typer

# What the experiment is.
Units = Annotated[int, typer.Option(help="T, the number of units.")]
Actions = Annotated[int, typer.Option(help="K, the number of actions.")]
Features = Annotated[
    int | None, typer.Option(help="How many numbers describe a unit; one model per action.")
]
SampleFile = Annotated[
    Path | None, typer.Option(help="Instead of --features: a CSV or Parquet sample of units.")
]
Columns = Annotated[
    str | None, typer.Option(help="The sample's feature columns, separated by commas.")
]
Outcomes = Annotated[
    str | None,
    typer.Option(
        help="The sample's outcome and treatment columns, separated by commas: no features."
    ),
]
Dim = Annotated[
    int | None,
    typer.Option(help="Instead of --features: length of each action's vector; one model."),
]
Contexts = Annotated[
    str, typer.Option(help="stochastic (one population) or adversarial (arbitrary).")
]

# What is guessed of rewards.
Effect = Annotated[
    list[float] | None,
    typer.Option(
        help="Gain per unit of the best action over a random one; repeat for several guesses."
    ),
]
EffectSpread = Annotated[
    float | None,
    typer.Option(
        help="The factor that two effects in three are within of the guess; 1 is certain."
    ),
]
Noise = Annotated[
    list[float] | None,
    typer.Option(help="Standard deviation of the reward noise; repeat for several guesses."),
]
Kappa = Annotated[
    float | None,
    typer.Option(help="Smallest over largest eigenvalue of the contexts' covariance."),
]

# Which batches may be.
Batches = Annotated[
    int | None, typer.Option(help="M, the number of batches; left out, it is recommended.")
]
GridKind = Annotated[
    str, typer.Option(help="tuned (to effect and noise) or paper (needs no guess).")
]
MaxBatches = Annotated[int | None, typer.Option(help="The most batches in the table.")]
MinBatch = Annotated[int, typer.Option(help="The smallest batch allowed.")]
MaxBatch = Annotated[int | None, typer.Option(help="The largest batch allowed.")]
FirstBatch = Annotated[int | None, typer.Option(help="The size of the first batch.")]
Waves = Annotated[str | None, typer.Option(help="Sizes of calendar waves, separated by commas.")]
BatchCost = Annotated[float | None, typer.Option(help="What each batch costs, in units of reward.")]
Within = Annotated[
    float, typer.Option(help="How far below fully online is close enough: 0.05 is 5%.")
]

# What happens beside the policy's own choices.
Randomised = Annotated[
    float, typer.Option(help="The share of units that get a random action in any case.")
]
Floor = Annotated[
    float, typer.Option(help="The least probability of every action for all other units.")
]
Missing = Annotated[float, typer.Option(help="The share of outcomes that will never come.")]
Delay = Annotated[
    int,
    typer.Option(help="Batches that outcomes are late: 1 uses those of batch 1 in batch 3."),
]
Eligible = Annotated[
    str | None,
    typer.Option(help="The share of units that may get each action, separated by commas."),
]
Capacity = Annotated[
    str | None,
    typer.Option(
        help="The most units of each action as a share of each batch, separated by commas; 1 is "
        "no limit."
    ),
]

# What must be detected.
Detect = Annotated[
    float | None,
    typer.Option(
        help="A lift over control to be detected: the least randomised share that does is found."
    ),
]
Power = Annotated[float, typer.Option(help="The probability to detect it.")]

# What is written.
Seed = Annotated[int, typer.Option(help="The same seed gives the same plan.")]
Out = Annotated[
    Path | None, typer.Option(help="A .png or .svg file for the picture, or .html for a page.")
]
TradeFile = Annotated[
    Path | None,
    typer.Option(
        help="A .png, .svg or .html file for regret against the detectable lift, as more units "
        "are randomised."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")]
