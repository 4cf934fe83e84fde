"""Evaluate eligibility rules: which actions each unit may get."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.features.boolean import read_booleans
from seqbatch.campaign.files.column_values import MISSING, Reason, categories
from seqbatch.campaign.files.number_format import read_numbers
from seqbatch.campaign.spec.eligibility import (
    Among,
    BooleanColumn,
    Both,
    Compare,
    EligibilityRule,
    Kind,
    Missing,
    Not,
)
from seqbatch.campaign.spec.spec import Spec
from seqbatch.core.arrays import Bools

# ----------------------------------------------------------------------
# Columns of units that are stored for rules and strata, and are not part of the model.


@dataclass(frozen=True)
class BesideColumn:
    """A column stored for rules or strata; a missing value is null, and not an error.

    Parameters
    ----------
    name
        The column's name.
    kind
        The type of its values.
    """

    name: str
    kind: Kind

    @property
    def kept(self) -> pa.DataType:
        """The Arrow type in which the column is stored."""
        return {"text": pa.string(), "number": pa.float64(), "yes or no": pa.bool_()}[self.kind]

    def read(self, column: Any) -> tuple[Any, dict[int, str]]:
        """Return the stored form of a column of a file, and the problems of its rows."""
        if self.kind == "text":
            encoded, wrong = categories(column)
            return encoded, {row: why for row, why in wrong.items() if why != MISSING}
        found = read_numbers(column) if self.kind == "number" else read_booleans(column)
        values, wrong = found.values_and_wrong()
        kept = values if self.kind == "number" else values > 0
        return pa.array(kept, mask=found.missing), wrong


# ----------------------------------------------------------------------
# Evaluate which actions each unit may get, from its columns.


COMPARED = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip


@dataclass(frozen=True)
class Eligibility:
    """The eligibility rules of the active actions.

    Parameters
    ----------
    names
        The actions, in order.
    rules
        The rule of each action; None if all units may get it.
    fallback
        The index of the action for units that are eligible for no other; None if there is none.
    """

    names: tuple[str, ...]
    rules: tuple[EligibilityRule | None, ...]
    fallback: int | None

    @classmethod
    def of(cls, spec: Spec, names: Sequence[str]) -> "Eligibility | None":
        """Return the rules of these actions; None if there are no rules."""
        rules = spec.rules
        if not any(name in rules for name in names):
            return None
        fallback = names.index(spec.fallback) if spec.fallback in names else None
        return cls(tuple(names), tuple(rules.get(name) for name in names), fallback)

    def mask(self, given: pa.Table) -> Bools:
        """Return which actions units may get, shape (n, K); without a fallback, a row may be empty.

        A missing value makes a unit ineligible if the rule needs it: without a recorded consent to
        calls, for example, a unit is not phoned. Only `is missing` holds for it.
        """
        allowed = np.ones((given.num_rows, len(self.rules)), dtype=np.bool_)
        for place, rule in enumerate(self.rules):
            if rule is not None and place != self.fallback:
                allowed[:, place] = np.asarray(_holds(rule, given).fill_null(False))
        if self.fallback is not None:
            others = np.delete(allowed, self.fallback, axis=1)
            # Any unit may get the fallback, but only units without another action do.
            allowed[:, self.fallback] = ~others.any(axis=1)
        return allowed

    def nothing(self, given: pa.Table) -> dict[int, str]:
        """Return the rows of units that may get no action, with advice."""
        rows = np.flatnonzero(~self.mask(given).any(axis=1)).tolist()
        advice = "leave the unit out, or declare an action for such units (fallback)"
        return dict.fromkeys(rows, Reason(self.refusal, f"; {advice}", "not-eligible"))

    @property
    def refusal(self) -> str:
        """The reason for a unit that may get no action."""
        return f"no action is eligible for this unit ({', '.join(self.names)})"


def _holds(rule: EligibilityRule, given: pa.Table) -> Any:
    """Return whether a rule holds for each unit: true, false, or null if unknown."""
    match rule:
        case BooleanColumn(name):
            return _plain(given.column(name))
        case Compare(name, sign, value):
            return COMPARED[sign](_plain(given.column(name)), value)
        case Among(name, values):
            column = _plain(given.column(name))
            if pa.types.is_floating(column.type):
                # A look-up distinguishes -0 from 0; people and comparisons do not.
                column, values = pc.add(column, 0.0), tuple(float(v) + 0.0 for v in values)
            found = pc.is_in(column, value_set=pa.array(values, type=column.type))
            return pc.if_else(column.is_null(), None, found)
        case Missing(name):
            return _plain(given.column(name)).is_null()
        case Not(inner):
            return pc.invert(_holds(inner, given))
        case Both(rules, every):
            join = pc.and_kleene if every else pc.or_kleene
            held = _holds(rules[0], given)
            for each in rules[1:]:
                held = join(held, _holds(each, given))
            return held


def _plain(column: Any) -> Any:
    """Return a column without dictionary encoding, and with null for missing values."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type):
        column = pc.if_else(pc.equal(column, ""), None, column)
    return column
