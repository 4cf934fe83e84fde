"""Which actions each unit may get, by its own columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.eligibility import Among, Both, Column, Compare, Not, Rule
from seqbatch.campaign.design.spec import Spec
from seqbatch.core.arrays import Bools

COMPARED = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip


@dataclass(frozen=True)
class Eligibility:
    """The rules of the actions that are given.

    Parameters
    ----------
    names
        The actions, in their order.
    rules
        Who may get each; None for everybody.
    fallback
        The place of the action of units that no action is eligible for; None where there is none.
    """

    names: tuple[str, ...]
    rules: tuple[Rule | None, ...]
    fallback: int | None

    @classmethod
    def of(cls, spec: Spec, names: Sequence[str]) -> "Eligibility | None":
        """Return the rules of these actions; None where everybody may get everything."""
        rules = spec.rules
        if not any(name in rules for name in names):
            return None
        fallback = names.index(spec.fallback) if spec.fallback in names else None
        return cls(tuple(names), tuple(rules.get(name) for name in names), fallback)

    def mask(self, given: pa.Table) -> Bools:
        """Return which actions units may get, shape (n, K); none at all only without a fallback.

        What a rule needs and is missing makes nobody eligible: who cannot be asked is not phoned.
        """
        allowed = np.ones((given.num_rows, len(self.rules)), dtype=np.bool_)
        for place, rule in enumerate(self.rules):
            if rule is not None and place != self.fallback:
                allowed[:, place] = np.asarray(_holds(rule, given).fill_null(False))
        if self.fallback is not None:
            others = np.delete(allowed, self.fallback, axis=1)
            # Everybody may get the fallback, but only who can get nothing else does.
            allowed[:, self.fallback] = ~others.any(axis=1)
        return allowed

    def nothing(self, given: pa.Table) -> dict[int, str]:
        """Return the rows of units that may get no action, with what to do."""
        rows = np.flatnonzero(~self.mask(given).any(axis=1)).tolist()
        advice = "leave it out, or declare the action that such units get (fallback)"
        return dict.fromkeys(rows, f"{self.refusal}; {advice}")

    @property
    def refusal(self) -> str:
        """What is wrong with a unit that may get no action."""
        return f"no action is eligible for this unit ({', '.join(self.names)})"


def _holds(rule: Rule, given: pa.Table) -> Any:
    """Return whether a rule holds of each unit: yes, no, or null where that is not known."""
    match rule:
        case Column(name):
            return _plain(given.column(name))
        case Compare(name, sign, value):
            return COMPARED[sign](_plain(given.column(name)), value)
        case Among(name, values):
            column = _plain(given.column(name))
            if pa.types.is_floating(column.type):
                # A look-up tells -0 from 0; no person and no comparison does.
                column, values = pc.add(column, 0.0), tuple(float(v) + 0.0 for v in values)
            found = pc.is_in(column, value_set=pa.array(values, type=column.type))
            return pc.if_else(column.is_null(), None, found)
        case Not(inner):
            return pc.invert(_holds(inner, given))
        case Both(rules, every):
            join = pc.and_kleene if every else pc.or_kleene
            held = _holds(rules[0], given)
            for each in rules[1:]:
                held = join(held, _holds(each, given))
            return held


def _plain(column: Any) -> Any:
    """Return a column without a dictionary, and with null for what is missing."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type):
        column = pc.if_else(pc.equal(column, ""), None, column)
    return column
