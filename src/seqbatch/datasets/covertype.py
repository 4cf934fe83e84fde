"""UCI Covertype: 581,012 forest cells, 7 cover types, 10 quantities and 44 indicators.

J. Blackard, Colorado State University, UCI Machine Learning Repository, 1998 (CC BY 4.0).
Section 6.1 runs K = 7 actions on its 54 columns.
"""

import polars as pl

from seqbatch.datasets.files import levels, public, standardised, unit_rows
from seqbatch.datasets.labelled import Labelled

QUANTITIES = (
    *("Elevation", "Aspect", "Slope"),
    *("Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology"),
    "Horizontal_Distance_To_Roadways",
    *("Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm"),
    "Horizontal_Distance_To_Fire_Points",
)
INDICATORS = (
    *(f"Wilderness_Area{i}" for i in range(1, 5)),
    *(f"Soil_Type{i}" for i in range(1, 41)),
)


def covertype() -> Labelled:
    """Load Covertype: quantities standardised over the whole file, then rows of unit length.

    Indicators are unchanged. Class 0 is cover type 1; rows are in the file's order.

    Raises
    ------
    MissingDatasetError
        If covtype.data, plain or gzipped, is not in the data folder.
    DamagedDatasetError
        If its checksum is wrong.
    """
    columns = (*QUANTITIES, *INDICATORS)
    schema = {**dict.fromkeys(columns, pl.Float64), "Cover_Type": pl.Int64}
    table = pl.read_csv(public("covertype"), has_header=False, schema=schema)
    classes, labels = levels(table["Cover_Type"])
    features = table.select(columns).to_numpy(order="c", writable=True)
    features[:, : len(QUANTITIES)] = standardised(features[:, : len(QUANTITIES)])
    return Labelled(unit_rows(features), labels, classes, columns)
