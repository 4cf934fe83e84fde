"""What comes back of a statement of sums, checked and made into evidence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqbatch.campaign.deciding.balance import Allocation
from seqbatch.campaign.deciding.exact import GroupSums, scale_of
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.tables.reading import Source
from seqbatch.campaign.warehouse.summing import CHANCES
from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.fixed_point import ExactSums
from seqbatch.errors import InvalidFileError

#: A row of the result: texts and whole numbers, None where a sum is over nothing.
Row = dict[str, Any]
#: Columns that are texts; all others are whole numbers.
TEXTS = ("action", "statement")
COUNTS = ("part", "seen", "units", "distinct_units", "absent", "conflicting", "outside",
          "randomised")  # fmt: skip
#: A sum as it is written: more digits have no products of two billion units.
WHOLE = re.compile("-?[0-9]{1,28}")


@dataclass(frozen=True)
class WaveSums:
    """What a wave sums up to, by action that is given.

    Parameters
    ----------
    seen, missing
        Units with an outcome, absent ones among them, and without.
    absent, randomised
        How many units count as absent, and how many were randomised.
    rewards
        The sums of what is learned from.
    groups
        The sums of products, for each part of the evidence.
    """

    seen: Allocation
    missing: Allocation
    absent: Integers
    randomised: Integers
    rewards: Floats
    groups: list[ExactSums]

    @property
    def assigned(self) -> Integers:
        """Units."""
        return self.seen.counts + self.missing.counts


def names_of(now: Situation) -> list[str]:
    """Return the columns that a result must have."""
    K, wide = len(now.active), now.encoder().dim + 1
    return [
        "action", *COUNTS,
        *(f"e{a}" for a in range(K)), *(f"e{a}_{b}" for a in range(K) for b in range(a, K)),
        "rewards", *(f"z{i}_{j}" for i in range(wide) for j in range(i, wide)), "statement",
    ]  # fmt: skip


def read_rows(source: Source, now: Situation, fingerprint: str) -> list[Row]:
    """Return the rows of a result, as they are kept; refuse what is no result of the statement."""
    wanted, found = names_of(now), source.columns()
    spelled = {name.lower(): name for name in found}
    if missing := [name for name in wanted if name not in spelled]:
        said = "is missing; hand over the whole result of the statement"
        raise InvalidFileError(source.name, [(0, name, said) for name in missing])
    columns = [spelled[name] for name in wanted]
    rows: list[Row] = []
    for batch in source.batches(columns):
        for cells in batch.to_pylist():
            pairs = zip(wanted, (cells[column] for column in columns), strict=True)
            rows.append({name: _cell(name, value) for name, value in pairs})
    if problems := list(_problems(rows, now, fingerprint)):
        raise InvalidFileError(source.name, problems, "nothing was recorded")
    return rows


def _cell(name: str, value: Any) -> Any:
    """Return a cell as it is kept: whole numbers as text, which no reader of JSON rounds."""
    text = "" if value is None else str(value).strip()
    if name in COUNTS:
        return int(text) if text.lstrip("-").isdigit() else None
    return text


def _problems(rows: Sequence[Row], now: Situation, fingerprint: str) -> Any:
    """Yield what is wrong with the rows of a result."""
    names = {now.actions[number].name for number in now.active}
    keys = [(row["action"], row["part"], row["seen"]) for row in rows]
    if not rows:
        yield 0, "", "the result has no rows: the table of units is empty"
    for place, row in enumerate(rows, start=1):
        if row["statement"] != fingerprint:
            yield place, "statement", "is not the fingerprint of this statement"
        elif not row["action"]:
            said = (
                f"{row['units']} units have no action: the statement to assign says what is wrong"
            )
            yield place, "action", said
        elif row["action"] not in names:
            yield place, "action", f"must be one of {', '.join(names)}; received {row['action']!r}"
        elif keys.count(keys[place - 1]) > 1:
            yield place, "action", "has two rows for the same part and seen"
        elif bad := [name for name in row if name not in TEXTS and not _whole(name, row)]:
            yield place, bad[0], f"must be a whole number; received {row[bad[0]]!r}"
        elif row["units"] != row["distinct_units"]:
            said = f"{row['units']} units have {row['distinct_units']} different ids"
            yield place, "distinct_units", f"{said}: a unit is in the table more than once"
        elif row["conflicting"] or row["outside"]:
            said = (
                f"{row['conflicting']} units have outcomes that differ, {row['outside']} beyond "
                "the declared range; choose or correct before summing up"
            )
            yield place, "conflicting", said


def _whole(name: str, row: Row) -> bool:
    value = row[name]
    # Where no outcome is known, there is no reward to be summed up.
    nothing = not row["seen"] and (name == "rewards" or name.startswith("z")) and value == ""
    return nothing or isinstance(value, int) or WHOLE.fullmatch(value) is not None


def wave_sums(rows: Sequence[Row], now: Situation, state: Any) -> WaveSums:
    """Return what the rows of a result say."""
    places = {now.actions[number].name: place for place, number in enumerate(now.active)}
    K, power = len(places), scale_of(now).reward
    made = WaveSums(
        seen=Allocation(K),
        missing=Allocation(K),
        absent=np.zeros(K, dtype=np.int64),
        randomised=np.zeros(K, dtype=np.int64),
        rewards=np.zeros(K),
        groups=GroupSums(now, state).groups,
    )
    for row in rows:
        place = places[row["action"]]
        _allocate(made.seen if row["seen"] else made.missing, place, row)
        made.randomised[place] += row["randomised"]
        if row["seen"]:
            made.absent[place] += row["absent"]
            made.rewards[place] += np.ldexp(float(int(row["rewards"])), -power)
            if row["part"] >= 0:
                made.groups[row["part"]] = _with(made.groups[row["part"]], place, row)
    return made


def _allocate(allocation: Allocation, place: int, row: Row) -> None:
    """Add the units of a row to those that were counted."""
    counts = np.zeros_like(allocation.counts)
    counts[place] = row["units"]
    every = range(len(counts))
    expected = np.array([_chance(row[f"e{a}"], 1) for a in every])
    products = [[_chance(row[f"e{min(a, b)}_{max(a, b)}"], 2) for b in every] for a in every]
    allocation.add_sums(counts, expected, np.array(products))


def _chance(text: str, factors: int) -> float:
    """Return a sum of products of probabilities that were rounded to whole numbers."""
    return float(np.ldexp(float(int(text)), -CHANCES * factors))


def _with(sums: ExactSums, cell: int, row: Row) -> ExactSums:
    products, count = np.zeros_like(sums.products), np.zeros_like(sums.count)
    for i in range(products.shape[1]):
        for j in range(products.shape[1]):
            products[cell, i, j] = int(row[f"z{min(i, j)}_{max(i, j)}"])
    count[cell] = row["units"]
    return sums.merged(ExactSums.of(sums.scale, products, count))
