"""Choose actions from a policy's probabilities, and log the exact probability of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.allocation import Limited, limited, rounded
from seqbatch.allocation.rounding import as_floats, whole_parts
from seqbatch.campaign.decide.capacity_and_budget import limits_left
from seqbatch.campaign.decide.draws import UnitDraws, all_of, draws
from seqbatch.campaign.decide.draws_in_order import draw_in_order
from seqbatch.campaign.files.column_values import Texts
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.decisions import Decided
from seqbatch.core import Contexts
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.display import counted
from seqbatch.errors import CampaignStateError, InvalidArgumentError
from seqbatch.policies.base import BasePolicy
from seqbatch.policies.capacity import preferred
from seqbatch.policies.choice import pick, uniformly
from seqbatch.policies.rule import Rule

# ----------------------------------------------------------------------
# Decide for each unit separately.
#
# A share `randomised` of units gets a uniformly random action, for unbiased measurement. For the
# other units, every action has at least the probability `floor`, and the policy distributes the
# rest. With m eligible actions out of K, the total probability of action a is therefore
#
#     randomised / m + (1 - randomised) (K floor / m + (1 - K floor) p_a)
#
# where p_a is the policy's probability. This total is logged. If all actions are eligible, m = K.


#: Units scored at once; a shared model needs memory for one vector per unit and action.
BLOCK = 8_192


@dataclass(frozen=True)
class Weighed:
    """The policy's output for some units, over the active actions.

    Parameters
    ----------
    probabilities
        The policy's probabilities, shape (n, K).
    scores
        The scores that it compared, shape (n, K).
    actions
        The action that it chose for each unit, shape (n,).
    candidates
        The actions that it chose from, shape (n, K); None for all eligible actions.
    groups
        The part of the evidence that each unit's outcome enters, -1 for none, shape (n,).
    eligible
        Which actions each unit may get, shape (n, K); None for all of them.
    """

    probabilities: Floats
    scores: Floats
    actions: Integers
    candidates: Bools | None
    groups: Integers
    eligible: Bools | None

    @property
    def worth(self) -> Floats:
        """The values to maximise when limits change units' actions, shape (n, K).

        These are the scores, lowered for actions that the policy did not consider; see
        :func:`seqbatch.policies.capacity.preferred`.
        """
        return preferred(self.scores, self.actions, self.candidates)


def weigh(now: Situation, rule: Rule, given: pa.Table, draws: UnitDraws) -> Weighed:
    """Apply the rule to units of the open wave; splitting the units does not change the result.

    Parameters
    ----------
    now
        The campaign's situation.
    rule
        The policy's rule for the open wave.
    given
        The units' columns.
    draws
        The units' own random numbers.
    """
    encoder, problem = now.encoder(wave=now.wave), now.problem()
    size = problem.size(now.wave)
    own = encoder.encode(given)
    mask = None if encoder.eligibility is None else encoder.eligibility.mask(given)
    pieces = []
    step = BLOCK if encoder.actions else max(len(own), 1)
    for start in range(0, max(len(own), 1), step):
        rows = slice(start, start + step)
        part = draws.take(rows)
        allowed = None if mask is None else mask[rows]
        contexts = Contexts(encoder.contexts(own[rows], now.active), problem, allowed)
        places = np.minimum((part.place * size).astype(np.int64), size - 1)
        said = rule.decide(contexts, part.choice, places)
        pieces.append(
            Weighed(
                said.probabilities, said.scores, said.actions, said.candidates, said.groups, allowed
            )
        )
    return gathered(pieces)


def gathered(pieces: list[Weighed]) -> Weighed:
    """Concatenate the policy's output for several pieces."""
    if len(pieces) == 1:
        return pieces[0]
    masks = [piece.eligible for piece in pieces if piece.eligible is not None]
    passed = [piece.candidates for piece in pieces if piece.candidates is not None]
    return Weighed(
        probabilities=np.concatenate([piece.probabilities for piece in pieces]),
        scores=np.concatenate([piece.scores for piece in pieces]),
        actions=np.concatenate([piece.actions for piece in pieces]),
        candidates=np.concatenate(passed) if passed else None,
        groups=np.concatenate([piece.groups for piece in pieces]),
        eligible=np.concatenate(masks) if masks else None,
    )


def chances(now: Situation, count: int, eligible: Bools | None) -> Floats:
    """Return each action's probability from randomisation and the floor alone, shape (n, K)."""
    options, share = len(now.active), now.randomised
    even = np.full((count, options), 1 / options)
    if eligible is not None:
        even = eligible / eligible.sum(axis=1, keepdims=True)
    own: Floats = (share + (1 - share) * options * now.floor) * even
    return own


def decide(
    now: Situation, policy: BasePolicy, state: Any, given: pa.Table, draws: UnitDraws
) -> Decided:
    """Decide for units of the open wave, with the policy's state when the wave opened."""
    return decide_by(now, policy.rule(state), given, draws)


def decide_by(now: Situation, rule: Rule, given: pa.Table, draws: UnitDraws) -> Decided:
    """Decide for each unit of the open wave with its own draws; see :func:`weigh`."""
    said = weigh(now, rule, given, draws)
    count, options = said.probabilities.shape
    share = now.randomised
    mixed, total = mixture(now, said)
    # Use a separate draw: whether a unit is randomised must not depend on the draw of its action.
    randomised = draws.randomised < share
    actions = np.where(
        randomised,
        uniformly(count, options, draws.choice, said.eligible)[0],
        pick(mixed, draws.choice)[0],
    )
    return decided(now, said, actions, total, randomised)


def mixture(now: Situation, said: Weighed) -> tuple[Floats, Floats]:
    """Return the probabilities of a unit that is not randomised, and those of every unit."""
    options, share, floor = said.probabilities.shape[1], now.randomised, now.floor
    # Reserve K floors first: every action then has at least its floor, whatever the policy does.
    mixed = floor + (1 - options * floor) * said.probabilities
    even: float | Floats = share / options
    if said.eligible is not None:
        among = said.eligible / said.eligible.sum(axis=1, keepdims=True)
        mixed = options * floor * among + (1 - options * floor) * said.probabilities
        even = share * among
    return mixed, even + (1 - share) * mixed


def decided(
    now: Situation, said: Weighed, actions: Integers, probabilities: Floats, randomised: Bools
) -> Decided:
    """Return decisions in their stored form, over all actions including retired ones."""
    count = len(actions)
    active = np.array(now.active, dtype=np.int64)
    every = np.zeros((count, len(now.actions)))
    every[:, active] = probabilities
    return Decided(
        actions=active[actions],
        scores=said.scores[np.arange(count), actions],
        probabilities=every,
        randomised=randomised,
        groups=said.groups,
    )


# ----------------------------------------------------------------------
# Decide jointly for all units of a file, such that each action is given as often as expected.
#
# The table of probabilities is first adjusted to the remaining capacities and budget, and then
# rounded to actions as a whole. Every unit keeps its logged probabilities, and the number of units
# that get an action, overall and within each stratum, is its expectation rounded up or down
# (:mod:`seqbatch.allocation`).


#: Smaller differences between probabilities are rounding errors.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Balanced:
    """The decisions for a file, and what they leave behind.

    Parameters
    ----------
    decided
        The decisions.
    prices
        The shadow prices of limits; None without limits.
    strata
        What changed of :attr:`~seqbatch.campaign.record.current_situation.Situation.by_stratum`.
    """

    decided: Decided
    prices: Limited | None = None
    strata: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def plain(self, now: Situation) -> dict[str, Any]:
        """Return the event's entry on limits: the value of one more unit of each limit."""
        assert self.prices is not None
        names = [now.actions[number].name for number in now.active]
        budget = None if now.spec.budget is None else float(self.prices.budget_price)
        return {
            "prices_in": self.prices.prices_in,
            "prices": {
                name: float(price)
                for name, price in zip(names, self.prices.prices, strict=True)
                if name in now.spec.capacity
            },
            "budget_price": budget,
        }


class JointDecision:
    """Collects the units of one file piece by piece, and then decides for them jointly."""

    def __init__(self, now: Situation, policy: BasePolicy) -> None:
        self._now = now
        self._policy = policy
        self._said: list[Weighed] = []
        self._draws: list[UnitDraws] = []
        self._given: list[pa.Table] = []

    def __len__(self) -> int:
        return sum(len(drawn) for drawn in self._draws)

    def add(self, units: Texts, given: pa.Table, state: Any) -> None:
        """Add some units; of their columns, only the strata are kept."""
        spec = self._now.spec
        drawn = draws(spec.seed, spec.name, units, by=spec.draws)
        self._said.append(weigh(self._now, self._policy.rule(state), given, drawn))
        self._draws.append(drawn)
        self._given.append(given.select(list(self._now.spec.strata)))

    def decided(self, logged: Floats | None = None) -> Balanced:
        """Decide for all added units, from the logged probabilities if they are given.

        Another machine may round prices differently. The draw itself uses integers, and gives the
        same result on every machine.
        """
        said, drawn = gathered(self._said), all_of(self._draws)
        if self._now.spec.in_order:
            return decide_in_order(self._now, said, drawn, self._given)
        strata = strata_of(self._now.spec.strata, self._given)
        return decide_together(self._now, said, drawn, strata, logged)


def decide_in_order(
    now: Situation, said: Weighed, drawn: UnitDraws, given: Sequence[pa.Table]
) -> Balanced:
    """Decide for new units in their order; splitting them into files does not change the result.

    `given` has the columns of the strata.
    """
    _, total = mixture(now, said)
    values = [stratum_texts(column, given) for column in now.spec.strata]
    found = draw_in_order(now, total, drawn, values)
    randomised = drawn.randomised < now.randomised
    return Balanced(decided(now, said, found.actions, total, randomised), strata=found.strata)


def decide_together(
    now: Situation,
    said: Weighed,
    drawn: UnitDraws,
    strata: Integers | None,
    logged: Floats | None = None,
) -> Balanced:
    """Decide jointly for all new units of a file; their order does not matter.

    Parameters
    ----------
    now
        The campaign's current state.
    said
        The policy's output for the units.
    drawn
        The units' own random numbers.
    strata
        The stratum of each unit, coarse to fine, shape (n, levels); None without strata.
    logged
        The logged table of probabilities, shape (n, K), if the decisions are being reproduced. It
        is used for the draw if it equals the computed table up to rounding.
    """
    count = len(said.groups)
    own = chances(now, count, said.eligible)
    share = now.randomised
    prices = None
    table = own + (1 - own.sum(axis=1, keepdims=True)) * said.probabilities
    if now.spec.limited:
        prices = _within(now, said, own, table, drawn)
        table = prices.probabilities
    same = logged is not None and np.abs(logged - table).max(initial=0.0) < ROUNDING
    source = logged if logged is not None and same else table
    made = rounded(source, key=_key(now), order=drawn.lot, strata=strata)
    randomised = _randomised(made.probabilities, made.actions, said.eligible, share, drawn)
    found = as_floats(whole_parts(table)) if same else made.probabilities
    return Balanced(decided(now, said, made.actions, found, randomised), prices)


def _within(now: Situation, said: Weighed, own: Floats, table: Floats, drawn: UnitDraws) -> Limited:
    """Adjust the policy's part of the table to the limits, or the whole table if necessary.

    In the last files of a wave, an action's remaining capacity may be less than randomisation and
    the floor alone would use. In that case their part is reduced too.
    """
    problem, worth = None, said.worth
    for limits in limits_left(now, len(table)):
        for floor in (own, None):
            probabilities = table if floor is None else said.probabilities
            try:
                return limited(
                    worth, probabilities, limits, eligible=said.eligible, floor=floor,
                    order=drawn.lot,
                )  # fmt: skip
            except InvalidArgumentError as error:
                problem = error
    raise CampaignStateError(
        f"campaign {now.name}: {counted(len(table), 'unit')} cannot be assigned within the "
        f"remaining limits of wave {now.wave}: {problem} Nothing was assigned.",
        code="beyond-limits",
    )


def _key(now: Situation) -> bytes:
    """Return the key for rounding a file; each file of a campaign has a different key."""
    text = f"balanced\n{now.spec.seed}\n{now.assigned}\n{now.name}"
    return blake2b(text.encode(), digest_size=32).digest()


def _randomised(
    table: Floats, actions: Integers, eligible: Bools | None, share: float, drawn: UnitDraws
) -> Bools:
    """Return which units count as randomised.

    Their actions are uniform over the eligible ones, as if these units had been selected first:
    given action a, a unit counts with probability (share / m) / p_a. If limits reduce some action's
    probability below share / m, fewer units count, but their actions are still uniform.
    """
    allowed = np.ones_like(table, dtype=np.bool_) if eligible is None else eligible
    options = allowed.sum(axis=1)
    least = np.where(allowed, table, np.inf).min(axis=1)
    even = np.minimum(share / options, least)
    chosen = table[np.arange(len(actions)), actions]
    flagged: Bools = drawn.randomised * chosen < even
    return flagged


def strata_of(columns: Sequence[str], given: Sequence[pa.Table]) -> Integers | None:
    """Return the stratum of each unit of a file: by the first column, by the first two, and so on.

    Missing values form a separate stratum.
    """
    if not columns:
        return None
    levels: list[Integers] = []
    for column in columns:
        texts = stratum_texts(column, given)
        found, codes = np.unique(texts.fill_null("").to_numpy(), return_inverse=True)
        above = levels[-1] if levels else np.zeros(len(codes), dtype=np.int64)
        # Renumber at each level: the product of many columns' levels could overflow.
        levels.append(np.unique(above * len(found) + codes, return_inverse=True)[1])
    return np.column_stack(levels)


def stratum_texts(column: str, given: Sequence[pa.Table]) -> pa.ChunkedArray:
    """Return the units' values of a stratum column."""
    return pa.chunked_array([_texts(table.column(column)) for table in given], type=pa.string())


def _texts(column: pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string())
