"""The rows of an outcome file that are kept, as a table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.deciding.judging import Judged
from seqbatch.campaign.record.outcomes import part_name
from seqbatch.core.arrays import Integers, Places


@dataclass(frozen=True)
class KeptRows:
    """The rows of a piece that are to be kept: all but the duplicates.

    Parameters
    ----------
    judged
        All rows, with their verdicts.
    kept, lines
        Which of them are kept, and where all of them stand in the file.
    chunk
        The number of their chunk.
    """

    judged: Judged
    kept: Places
    lines: Integers
    chunk: int

    def table(self) -> pa.Table:
        """Return the rows as they are kept."""
        judged, kept = self.judged, self.kept
        whole = len(kept) == len(self.lines)
        columns: dict[str, Any] = {
            "line": self.lines[kept],
            "unit": judged.units if whole else judged.units.take(kept),
            "number": judged.numbers[kept],
            "value": judged.values[kept],
            "version": judged.versions[kept].astype(np.int32),
            "verdict": judged.verdicts[kept].astype(np.int8),
            "reason": self._reasons(),
        }
        for place in range(judged.cells.shape[1] - 1):
            columns[part_name(place)] = np.ascontiguousarray(judged.cells[kept, 1 + place])
        if judged.ids is not None:
            columns["outcome"] = [judged.ids[row] for row in kept]
        return pa.table(columns)

    def _reasons(self) -> pa.Array:
        said = self.judged.reasons
        if not said:
            places = np.zeros(len(self.kept), dtype=np.int32)
            return pa.DictionaryArray.from_arrays(places, pa.array([""]))
        reasons = [said.get(row, "") for row in self.kept.tolist()]
        return pa.array(reasons, type=pa.string()).dictionary_encode()
