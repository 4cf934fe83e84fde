"""UCI Mushroom: 8,124 mushrooms, edible or poisonous, by 22 categorical attributes.

J. Schlimmer, UCI Machine Learning Repository, 1987 (CC BY 4.0). Section 6.1 runs K = 2 actions on
its 117 indicators.
"""

import numpy as np
import polars as pl

from seqbatch.datasets.files import levels, one_hot, public, unit_rows
from seqbatch.datasets.labelled import Labelled

ATTRIBUTES = (
    *("cap-shape", "cap-surface", "cap-color", "bruises", "odor"),
    *("gill-attachment", "gill-spacing", "gill-size", "gill-color"),
    *("stalk-shape", "stalk-root", "stalk-surface-above-ring", "stalk-surface-below-ring"),
    *("stalk-color-above-ring", "stalk-color-below-ring", "veil-type", "veil-color"),
    *("ring-number", "ring-type", "spore-print-color", "population", "habitat"),
)


def mushroom() -> Labelled:
    """Load Mushroom: all levels one-hot, including '?', and every row scaled to unit length.

    Levels and classes are sorted (class 0 is 'e', edible); rows are in the file's order.

    Raises
    ------
    MissingDatasetError
        If agaricus-lepiota.data, plain or gzipped, is not in the data folder.
    DamagedDatasetError
        If its checksum is wrong.
    """
    schema = dict.fromkeys(("class", *ATTRIBUTES), pl.String)
    table = pl.read_csv(public("mushroom"), has_header=False, schema=schema)
    classes, labels = levels(table["class"])
    encoded = [one_hot(table[name]) for name in ATTRIBUTES]
    return Labelled(
        features=unit_rows(np.hstack([indicators for indicators, _ in encoded])),
        labels=labels,
        classes=classes,
        columns=tuple(name for _, names in encoded for name in names),
    )
