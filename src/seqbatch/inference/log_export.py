"""Export of logged tables: Open Bandit Pipeline, Vowpal Wabbit, Parquet.

The first two do not support missing outcomes: units without one are left out. That is harmless only
if missingness is unrelated to outcomes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.logged_units import Rows, Wave, pieces
from seqbatch.output_files import atomically

if TYPE_CHECKING:
    import pyarrow as pa


def open_bandit_feedback(log: Rows) -> dict[str, Any]:
    """Return the feedback dictionary for Open Bandit Pipeline's estimators.

    Parameters
    ----------
    log
        The units; those without an outcome are left out.

    Examples
    --------
    >>> rows = Rows.of([[1.0], [1.0]], [0, 1], [[0.5, 0.5], [0.2, 0.8]], [3.0, float("nan")])
    >>> feedback = open_bandit_feedback(rows)
    >>> feedback["n_rounds"], feedback["pscore"].tolist(), feedback["pi_b"].shape
    (1, [0.5], (1, 2, 1))
    """
    back = log.returned
    return {
        "n_rounds": int(back.sum()),
        "n_actions": log.actions_number,
        "context": log.features[back],
        "action_context": np.eye(log.actions_number),
        "action": log.actions[back],
        # One action per unit: there are no positions in a list.
        "position": None,
        "reward": log.outcomes[back],
        "expected_reward": None,
        "pscore": log.taken[back],
        "pi_b": log.probabilities[back][:, :, None],
    }


def vowpal_wabbit_lines(log: Wave, *, labels: Sequence[str] = ()) -> Iterator[str]:
    """Yield the log in Vowpal Wabbit's format for ``--cb``: ``action:cost:probability | features``.

    Actions are numbered from 1 and costs are negative outcomes, as Vowpal Wabbit requires. The
    constant is left out, because Vowpal Wabbit adds its own.

    Parameters
    ----------
    log
        The units; those without an outcome are left out.
    labels
        The names of the features, the constant first.

    Examples
    --------
    >>> rows = Rows.of([[1.0, 0.5]], [1], [[0.2, 0.8]], [3.0])
    >>> list(vowpal_wabbit_lines(rows, labels=["constant", "income"]))
    ['2:-3.0:0.8 | income:0.5']
    """
    for label in labels:
        if not label or set(label) & set(" :|\t\n\r"):
            rule = "without spaces, colons, bars and line breaks"
            raise InvalidArgumentError("labels", rule, repr(label))
    for rows in pieces(log):
        names = _names(labels, rows.features.shape[1])[1:]
        for place in np.flatnonzero(rows.returned).tolist():
            values = rows.features[place, 1:].tolist()
            features = " ".join(
                f"{name}:{value!r}" for name, value in zip(names, values, strict=True)
            )
            action, cost = int(rows.actions[place]) + 1, -float(rows.outcomes[place])
            yield f"{action}:{cost!r}:{float(rows.taken[place])!r} | {features}"


def write_parquet(log: Wave, path: str | Path, *, labels: Sequence[str] = ()) -> int:
    """Write the log as Parquet with a description of every column; return the number of units.

    The descriptions are in the metadata of each field, and all together as JSON in the schema's
    metadata under ``data_dictionary``.

    Parameters
    ----------
    log
        The units, with or without outcomes.
    path
        The file.
    labels
        The names of the features, the constant first.
    """
    import pyarrow.parquet as pq

    writer, count = None, 0
    with atomically(Path(path)) as partial:
        try:
            for rows in pieces(log):
                table = _table(rows, labels)
                writer = writer or pq.ParquetWriter(partial, table.schema)
                writer.write_table(table)
                count += rows.count
        finally:
            if writer is not None:
                writer.close()
    return count


def data_dictionary(rows: Rows, labels: Sequence[str] = ()) -> dict[str, str]:
    """Return a description of each column of :func:`write_parquet`."""
    words = {
        "action": "the action that the unit got, from 0; 0 is control",
        "outcome": "the outcome; null if it is missing",
        "probability": "the logged probability of the action that the unit got",
    }
    for action in range(rows.actions_number):
        words[f"probability_{action}"] = f"the logged probability of action {action}"
    for place, name in enumerate(_names(labels, rows.features.shape[1])):
        words[f"feature_{name}"] = f"column {place} of the model's features"
    for name in rows.groups:
        words[f"segment_{name}"] = "a segment declared before the campaign"
    if rows.clusters is not None:
        words["cluster"] = "units with the same cluster are not independent"
    return words


def _table(rows: Rows, labels: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    words = data_dictionary(rows, labels)
    outcomes = pa.array(rows.outcomes, from_pandas=True)  # NaN becomes missing
    columns = [rows.actions, outcomes, rows.taken, *rows.probabilities.T, *rows.features.T]
    columns += rows.groups.values()
    columns += [] if rows.clusters is None else [rows.clusters]
    arrays = [column if isinstance(column, pa.Array) else _plain(column) for column in columns]
    fields = [
        pa.field(name, array.type, metadata={"description": text})
        for (name, text), array in zip(words.items(), arrays, strict=True)
    ]
    schema = pa.schema(fields, metadata={"data_dictionary": json.dumps(words)})
    return pa.table(arrays, schema=schema)


def _plain(column: Any) -> pa.Array:
    import pyarrow as pa

    # NumPy's fixed-width strings are unknown to Arrow.
    return pa.array(column.tolist() if column.dtype.kind == "U" else np.ascontiguousarray(column))


def _names(labels: Sequence[str], columns: int) -> list[str]:
    names = ["constant", *(f"x{place}" for place in range(1, columns))]
    names[: len(labels)] = labels
    return names
