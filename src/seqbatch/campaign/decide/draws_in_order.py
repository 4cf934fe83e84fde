"""Draws that balance units as they come: permuted blocks within strata, and minimisation.

Blocks are shuffled without regard to the units, and minimisation treats all actions in the same
way. So before the first draw each action is equally likely for each unit that is drawn like this.
Under a policy whose shares are equal in every wave, blocks and counts go on from wave to wave: no
outcome changes a later probability. Any other policy depends on outcomes, and so on the actions
before; given these, open blocks and counts would make the next actions unequally likely. Every wave
then begins anew.

Given the units before it, the next action of a block or the biased coin has other probabilities;
they can be computed from the record, but are not those to weight outcomes by: that would undo the
balance.

A unit's place is the order in which units are stored. What the next unit depends on is kept in the
campaign's state: for blocks, the open block of each stratum and how many of its places are taken;
for minimisation, how many units each action has in each stratum column's values.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, shake_256

import numpy as np
import pyarrow as pa

from seqbatch.campaign.decide.draws import UnitDraws
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.spec.input_limits import MOST_STRATA_COUNTED
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import CampaignStateError
from seqbatch.policies.choice import pick

#: A unit whose actions are this close to equally likely is balanced for sure.
ROUNDING = 1e-9


@dataclass(frozen=True)
class InOrder:
    """The actions of some units, by their numbers among the active ones, and the strata after them.

    Parameters
    ----------
    actions
        The actions, shape (n,).
    strata
        What changed of :attr:`~seqbatch.campaign.record.current_situation.Situation.by_stratum`.
    """

    actions: Integers
    strata: dict[str, tuple[int, ...]]


def draw_in_order(
    now: Situation, probabilities: Floats, drawn: UnitDraws, values: Sequence[pa.ChunkedArray]
) -> InOrder:
    """Draw the actions of units in their order.

    The part of a unit's probabilities that all actions have in common is balanced: with K actions
    and probabilities q, the unit is balanced with probability u = K min q. Otherwise its action is
    drawn by itself from the rest, (q - u / K) / (1 - u).

    Parameters
    ----------
    now
        The campaign's state before these units.
    probabilities
        The units' probabilities of the active actions, shape (n, K).
    drawn
        The units' own random numbers.
    values
        The units' values of each stratum column, as text.
    """
    options = probabilities.shape[1]
    even = options * probabilities.min(axis=1)
    even[even > 1 - ROUNDING] = 1.0
    balanced = drawn.randomised < even
    rest = np.maximum(probabilities - even[:, np.newaxis] / options, 0)
    rest[balanced] = 1 / options
    actions, _ = pick(rest / rest.sum(axis=1, keepdims=True), drawn.choice)
    rows = np.flatnonzero(balanced)
    strata = _strata(now, [column.take(pa.array(rows)).to_pylist() for column in values], len(rows))
    if now.spec.draw == "blocks":
        chosen, after = in_blocks(now, [stratum for [stratum] in strata])
    else:
        chosen, after = minimised(now, strata, drawn.choice[rows].tolist())
    _refuse_too_many(now, after)
    actions[rows] = chosen
    return InOrder(actions, after)


# ----------------------------------------------------------------------
# Permuted blocks.


def in_blocks(
    now: Situation, strata: Sequence[str]
) -> tuple[list[int], dict[str, tuple[int, ...]]]:
    """Return the next actions of the strata's blocks, and each stratum's block and place in it."""
    actions, after, blocks = [], dict[str, tuple[int, ...]](), dict[str, list[int]]()
    for stratum in strata:
        number, taken = after.get(stratum) or now.by_stratum.get(stratum, (0, 0))
        if stratum not in blocks:
            blocks[stratum] = block(
                now.spec.seed, now.name, wave=now.balanced_since or now.wave,
                stratum=stratum, number=number, sizes=now.spec.sizes_of_blocks,
                actions=len(now.active),
            )  # fmt: skip
        actions.append(blocks[stratum][taken])
        after[stratum] = number, taken + 1
        if taken + 1 == len(blocks[stratum]):
            after[stratum] = number + 1, 0
            del blocks[stratum]
    return actions, after


def block(
    seed: int,
    campaign: str,
    *,
    wave: int,
    stratum: str,
    number: int,
    sizes: Sequence[int],
    actions: int,
) -> list[int]:
    """Return the actions of one permuted block, each equally often.

    If actions were added or retired since the sizes were declared, the size may not be a multiple
    of their number. Some actions, chosen at random, then occur once more than the others.

    >>> block(7, "trial", wave=1, stratum="a", number=0, sizes=[4, 6], actions=2)
    [1, 1, 0, 1, 0, 0]
    >>> block(7, "trial", wave=1, stratum="a", number=1, sizes=[4, 6], actions=2)
    [1, 0, 0, 1]
    """
    text = f"block\n{seed}\n{wave}\n{number}\n{stratum}\n{campaign}"
    lots = np.frombuffer(shake_256(text.encode()).digest(8 * (1 + actions + max(sizes))), "<u8")
    size = sizes[int(lots[0]) * len(sizes) >> 64]
    order = np.argsort(lots[1 : 1 + actions], kind="stable")
    places = np.argsort(lots[1 + actions : 1 + actions + size], kind="stable")
    found: list[int] = np.resize(order, size)[places].tolist()
    return found


# ----------------------------------------------------------------------
# Minimisation, after Pocock and Simon. The imbalance of a value's counts is their variance. Adding
# a unit to the count c of an action adds 2 c + 1 to the sum of squares, so the action that leaves
# the least imbalance, summed over columns, is the one with the fewest units that share the new
# unit's values.


def minimised(
    now: Situation, levels: Sequence[tuple[str, ...]], choices: Sequence[float]
) -> tuple[list[int], dict[str, tuple[int, ...]]]:
    """Return the units' actions, and the counts of the values that they have."""
    options, counts = len(now.active), dict[str, list[int]]()
    actions = []
    for own, choice in zip(levels, choices, strict=True):
        for level in own:
            if level not in counts:
                counts[level] = list(now.by_stratum.get(level, (0,) * options))
        alike = [sum(column) for column in zip(*(counts[level] for level in own), strict=True)]
        action = _drawn(coin(alike, now.spec.favour), choice)
        actions.append(action)
        for level in own:
            counts[level][action] += 1
    return actions, {level: tuple(found) for level, found in counts.items()}


def coin(alike: Sequence[int], favour: float) -> list[float]:
    """Return each action's probability, by the number of units that are like the next one.

    One of the actions with the fewest gets the probability `favour`, the others share the rest.

    >>> coin([3, 1, 2], 0.75), coin([2, 2], 0.75)
    ([0.125, 0.75, 0.125], [0.5, 0.5])
    """
    fewest, options = min(alike), len(alike)
    ties = sum(count == fewest for count in alike)
    other = (1 - favour) / (options - 1)
    best = (favour + (ties - 1) * other) / ties
    return [best if count == fewest else other for count in alike]


def _drawn(chances: Sequence[float], choice: float) -> int:
    """Return the action in whose share of [0, 1) a number falls."""
    total = 0.0
    for action, chance in enumerate(chances):
        total += chance
        if choice < total:
            return action
    return len(chances) - 1


# ----------------------------------------------------------------------
# Strata by keyed hashes: events and states then have neither the units' values nor long texts.


def _strata(
    now: Situation, values: Sequence[Sequence[str | None]], count: int
) -> list[tuple[str, ...]]:
    """Return the stratum of each unit; to minimise, one for each column."""
    columns = now.spec.strata
    key = blake2b(f"strata\n{now.spec.seed}\n{now.name}".encode(), digest_size=32).digest()
    known: dict[tuple[str | None, ...], tuple[str, ...]] = {}
    found = []
    for unit in zip(*values, strict=True) if columns else [()] * count:
        if unit not in known:
            parts = [unit] if now.spec.draw == "blocks" else [*zip(columns, unit, strict=True)]
            known[unit] = tuple(_hashed(key, part) for part in parts)
        found.append(known[unit])
    return found


def _hashed(key: bytes, values: Sequence[str | None]) -> str:
    text = json.dumps(values, ensure_ascii=False)
    return blake2b(text.encode(), key=key, digest_size=8).hexdigest()


def _refuse_too_many(now: Situation, after: Mapping[str, tuple[int, ...]]) -> None:
    if (count := len(now.by_stratum.keys() | after.keys())) > MOST_STRATA_COUNTED:
        raise CampaignStateError(
            f"campaign {now.name}: with these units, {' and '.join(now.spec.strata)} would have "
            f"{count:,} strata; at most {MOST_STRATA_COUNTED:,} are counted. "
            "Columns with so many values hold ids rather than strata. Nothing was assigned.",
            code="too-many-strata",
        )
