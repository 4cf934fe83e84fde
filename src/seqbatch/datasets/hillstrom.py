"""Hillstrom: a randomised e-mail campaign with 64,000 customers and three arms.

K. Hillstrom, MineThatData E-Mail Analytics and Data Mining Challenge, 2008. Each customer got no
e-mail, one on men's or one on women's merchandise. The outcomes are visits, purchases and spend
within two weeks.
"""

import numpy as np
import polars as pl

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats, Integers
from seqbatch.datasets.files import levels, one_hot, public, standardised
from seqbatch.datasets.logged import LoggedExperiment

OUTCOMES = ("visit", "conversion", "spend")
CONTROL = "No E-Mail"

NUMBERS = ("recency", "history", "mens", "womens", "newbie", *OUTCOMES)


def hillstrom(outcome: str = "visit") -> LoggedExperiment:
    """Load the campaign with one of its outcomes as the reward.

    The features are an intercept, months since the last purchase and the logarithm of 1 + the past
    year's spend (both standardised), three flags, and one-hot zip code areas and channels.

    Parameters
    ----------
    outcome
        "visit" and "conversion" are 0 or 1; "spend" is in dollars.

    Raises
    ------
    MissingDatasetError
        If hillstrom.csv, plain or gzipped, is not in the data folder.
    DamagedDatasetError
        If its checksum is wrong.
    """
    arguments.choice("outcome", outcome, OUTCOMES)
    schema = dict.fromkeys(NUMBERS, pl.Float64)
    table = pl.read_csv(public("hillstrom"), schema_overrides=schema)
    names, actions = _arms(table["segment"])
    features, columns = _features(table)
    rewards = table[outcome].to_numpy()
    return LoggedExperiment(features, actions, rewards, names, columns)


def _arms(segment: pl.Series) -> tuple[tuple[str, ...], Integers]:
    """Return the arms, control first and the others sorted, and the arm of each row."""
    by_name, index = levels(segment)
    names = tuple(sorted(by_name, key=lambda name: (name != CONTROL, name)))
    place = np.array([names.index(name) for name in by_name], dtype=np.int64)
    return names, place[index]


def _features(table: pl.DataFrame) -> tuple[Floats, tuple[str, ...]]:
    numbers = table.select("recency", pl.col("history").log1p())
    flags = table.select("mens", "womens", "newbie")
    zips, zip_names = one_hot(table["zip_code"])
    channels, channel_names = one_hot(table["channel"])
    features = np.hstack(
        [
            np.ones((len(table), 1)),
            standardised(numbers.to_numpy()),
            flags.to_numpy(),
            zips,
            channels,
        ]
    )
    names = ("intercept", "recency", "log1p(history)", "mens", "womens", "newbie")
    return features, (*names, *zip_names, *channel_names)
