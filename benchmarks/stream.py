"""The stream that everything is timed on: Covertype in block form, or one of its shape."""

import gzip
import os
from pathlib import Path

import numpy as np

from seqbatch.core.arrays import Floats

UNITS, FEATURES, CLASSES = 581_012, 54, 7
NUMERIC = 10


def covertype() -> tuple[Floats, Floats, str]:
    """Return vectors (T, 54) of unit length, rewards (T, 7) of every action, and where from."""
    folder = Path(os.environ.get("SEQBATCH_DATA", "data"))
    file = folder / "covtype.data.gz"
    if not file.exists():
        return *synthetic(UNITS), "a synthetic stream of Covertype's shape"
    with gzip.open(file) as lines:
        raw = np.loadtxt(lines, delimiter=",", dtype=np.float64)
    vectors, labels = raw[:, :FEATURES], raw[:, FEATURES].astype(np.int64) - 1
    numeric = vectors[:, :NUMERIC]
    vectors[:, :NUMERIC] = (numeric - numeric.mean(axis=0)) / numeric.std(axis=0)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors), np.eye(CLASSES)[labels], "Covertype, in file order"


def synthetic(units: int) -> tuple[Floats, Floats]:
    """Make ten numbers, one of four areas and one of forty soils, and a linear class."""
    random = np.random.default_rng(0)
    vectors = np.zeros((units, FEATURES))
    vectors[:, :NUMERIC] = random.standard_normal((units, NUMERIC))
    rows = np.arange(units)
    vectors[rows, NUMERIC + random.integers(0, 4, units)] = 1.0
    vectors[rows, NUMERIC + 4 + random.integers(0, 40, units)] = 1.0
    scores = vectors @ random.standard_normal((FEATURES, CLASSES))
    labels = (scores + random.gumbel(size=scores.shape)).argmax(axis=1)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.eye(CLASSES)[labels]
