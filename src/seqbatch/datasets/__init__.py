"""Loaders of data files as arrays: public data sets, checked by checksum, and your own tables.

Nothing is downloaded. ``SEQBATCH_DATA`` names the folder; see :mod:`seqbatch.datasets.files`.
"""

from seqbatch.datasets.avazu import HashedRows, avazu, avazu_chunks, fit_theta
from seqbatch.datasets.avazu_like import DeviceAvazu, SyntheticAvazu
from seqbatch.datasets.covertype import covertype
from seqbatch.datasets.files import DamagedDatasetError, MissingDatasetError
from seqbatch.datasets.hillstrom import hillstrom
from seqbatch.datasets.labelled import Labelled, labelled_table
from seqbatch.datasets.logged import LoggedExperiment
from seqbatch.datasets.mushroom import mushroom
from seqbatch.datasets.unit_features import features_table, table_columns

__all__ = [
    "DamagedDatasetError",
    "DeviceAvazu",
    "HashedRows",
    "Labelled",
    "LoggedExperiment",
    "MissingDatasetError",
    "SyntheticAvazu",
    "avazu",
    "avazu_chunks",
    "covertype",
    "features_table",
    "fit_theta",
    "hillstrom",
    "labelled_table",
    "mushroom",
    "table_columns",
]


def __dir__() -> list[str]:
    return __all__
