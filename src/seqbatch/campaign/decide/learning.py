"""Update the policy with a wave's outcomes, when a wave is closed and in a replay."""

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.decide.action_counts import Counts, columns_counted, tally
from seqbatch.campaign.decide.decision import BLOCK
from seqbatch.campaign.features.encoder import Encoder, Room, largest, vectors
from seqbatch.campaign.files.parallel_pieces import over
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.decisions import Decided, extents_of
from seqbatch.campaign.record.outcomes import Ledger, News
from seqbatch.campaign.record.store import Reader
from seqbatch.campaign.record.stored_units import Piece, walk
from seqbatch.core import Problem, Statistics
from seqbatch.core.arrays import Bools, Floats, Integers, Places
from seqbatch.core.exact_sums import ExactSums, Scale, Vectors
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.planning.replanning import independent
from seqbatch.policies import Feedback, UniformRandom
from seqbatch.policies.base import BasePolicy, State
from seqbatch.policies.estimation import LeveledPolicy

# ----------------------------------------------------------------------
# Learning from sums that do not depend on order or machine (sums = "exact").


def scale_of(now: Situation) -> Scale:
    """Return the rounding scale, which depends on declared and frozen values and on no unit."""
    sizes = largest(now.encoder())
    assert now.spec.reward.range is not None
    costs = float(np.abs(now.charges).max())
    reward = max(abs(end) for end in now.spec.reward.range) + costs
    return Scale.of([size for size, _ in sizes], reward, whole=[whole for _, whole in sizes])


class GroupSums:
    """The sums over the outcomes of one wave, in each part of the evidence."""

    def __init__(self, now: Situation, state: State) -> None:
        self._models = state.problem.models
        self._groups = len(state.evidence)
        #: Working memory for the vectors that threads sum up.
        self.room = Room()
        # One cell for each model in each part.
        self._sums = ExactSums.zero(self._groups * self._models, scale_of(now))

    @property
    def groups(self) -> list[ExactSums]:
        """The sums of each part; assign to replace them all."""
        every = self._sums
        parts = [
            slice(group * self._models, (group + 1) * self._models) for group in range(self._groups)
        ]
        return [
            ExactSums(every.scale, every.high[part], every.low[part], every.count[part])
            for part in parts
        ]

    @groups.setter
    def groups(self, made: Sequence[ExactSums]) -> None:
        high, low, count = (
            np.concatenate([getattr(each, name) for each in made])
            for name in ("high", "low", "count")
        )
        self._sums = ExactSums(self._sums.scale, high, low, count)

    def empty(self) -> "GroupSums":
        """Return sums over zero units, to add to."""
        made = copy(self)
        made._sums = ExactSums.zero(self._groups * self._models, self._sums.scale)
        return made

    def merge(self, other: "GroupSums") -> None:
        """Add the sums over other units."""
        self._sums = self._sums.merged(other._sums)

    def add(
        self,
        vectors: Vectors,
        actions: Integers,
        groups: Integers,
        rewards: Floats,
        *,
        times: int = 1,
    ) -> None:
        """Add outcomes, or remove them (times = -1)."""
        models = actions if self._models > 1 else np.zeros_like(actions)
        cells = np.where(groups >= 0, groups * self._models + models, -1)
        self._sums = self._sums.added(vectors, rewards, cells, times=times)

    def absorbed(self, policy: BasePolicy, state: State) -> State:
        """Return the state with all sums added, rounded once."""
        for group, sums in enumerate(self.groups):
            state = policy.absorb(state, group, sums.statistics())
        return state


# ----------------------------------------------------------------------
# Update the policy with a wave's outcomes, when a wave is closed and in a replay.


def closed(now: Situation, state: Any, reader: Reader, news: News) -> Any:
    """Return the state after the open wave ended.

    Parameters
    ----------
    now
        The campaign's current state, including the scaling of features.
    state
        The policy's state when the wave opened.
    reader
        The reader for the units.
    news
        The outcomes recorded since.
    """
    if news.loses_precision:
        known = Ledger.of(reader.outcome_chunks(until_event=news.until)).known()
        absent = news.fresh.take(np.flatnonzero(news.fresh.absent))
        return relearned(now, reader, known.joined(absent.without_parts()), waves=now.wave)
    if now.spec.sums == "exact":
        return _closed_exactly(now, state, reader, news, counting=False)[0]
    policy = now.made_policy()
    for piece in _concerned(reader, now, news):
        state = _learned(now, policy, state, piece, None)
        state = _corrected(now, policy, state, piece, news, None)
    return ended(policy, state, None)


def closed_and_counted(
    now: Situation, state: Any, reader: Reader, news: News
) -> tuple[Any, Counts]:
    """Return the result of :func:`closed` and the open wave's counts, in one pass over its rows.

    Without exact sums there are two passes: learning is sequential, and counting uses all threads.
    """
    if now.spec.sums == "exact" and not news.loses_precision:
        return _closed_exactly(now, state, reader, news, counting=True)
    counted = tally(reader, now, news.fresh, now.wave)
    return closed(now, state, reader, news), counted


def _closed_exactly(
    now: Situation, state: Any, reader: Reader, news: News, *, counting: bool
) -> tuple[Any, Counts]:
    policy, sums, counted = now.made_policy(), GroupSums(now, state), Counts.zero(now)

    def summed(piece: Piece) -> tuple[GroupSums, Counts]:
        own, part = sums.empty(), Counts.zero(now)
        if counting and piece.wave == now.wave:
            piece = piece.holding([*columns_counted(now), "group"])
            part = Counts.of(now, piece)
        _learned(now, policy, state, piece, own)
        _corrected(now, policy, state, piece, news, own)
        return own, part

    # Exact sums do not depend on how threads share the work; counts are added in order.
    for own, part in over(summed, _concerned(reader, now, news)):
        sums.merge(own)
        counted += part
    return ended(policy, state, sums), counted


def _sums(now: Situation, state: Any) -> GroupSums | None:
    """Return empty exact sums; None if outcomes are added one after another."""
    return GroupSums(now, state) if now.spec.sums == "exact" else None


def _concerned(reader: Reader, now: Situation, news: News) -> Iterator[Piece]:
    """Yield the pieces with new outcomes: those of earlier waves, then those of the open wave."""
    earlier = news.numbers_before(sum(now.units[: now.wave - 1]))
    chunks = [extent.chunk for extent, _ in extents_of(reader, earlier)]
    chunks += [extent.chunk for extent in reader.extents(wave=now.wave)]
    return walk(reader, news.fresh, chunks=chunks, given=True)


def relearned(now: Situation, reader: Reader, known: Ledger, *, waves: int) -> Any:
    """Return the state after learning the first `waves` waves again from scratch."""
    policy = now.made_policy()
    state = policy.begin(now.problem())
    for wave in range(1, waves + 1):
        sums = _sums(now, state)
        for piece in walk(reader, known, wave=wave, given=True):
            state = _learned(now, policy, state, piece, sums)
        state = ended(policy, state, sums)
    return state


def wave_statistics(now: Situation, reader: Reader, known: Ledger, wave: int) -> Statistics:
    """Return the sums over a wave's outcomes, one cell per action, whatever the policy."""
    policy, problem = UniformRandom(), now.problem()
    state = policy.begin(problem)
    sums, total = _sums(now, state), Statistics.zero(problem.models, problem.dim)
    for piece in walk(reader, known, wave=wave, given=True):
        if not len(piece.known):
            continue
        rows = _Rows.of(now, policy, state, piece, piece.rows)
        rewards = rows.learned(now, piece.known.values)
        if sums is None:
            for part, own in rows.pieces(now):
                total = total.add(own, rewards[part], rows.actions[part])
            continue
        for part, taken in rows.summands(now, sums.room):
            actions = rows.actions[part]
            sums.add(taken, actions, np.zeros_like(actions), rewards[part])
    return total if sums is None else sums.groups[0].statistics()


def still_used(now: Situation, state: Any, decided: Decided) -> Bools:
    """Return for each unit whether a later estimate would use an outcome recorded now."""
    used = now.made_policy().still_used(state, decided.groups)
    if now.spec.model != "shared":
        used &= ~np.isin(decided.actions, list(now.retired))
    return used


@dataclass(frozen=True)
class _Rows:
    """The units of one piece to learn from, in the form that the policy takes."""

    kept: Places | slice
    given: pa.Table
    actions: Integers
    among_all: Integers
    groups: Integers

    @classmethod
    def of(
        cls, now: Situation, policy: BasePolicy, state: Any, piece: Piece, rows: Integers
    ) -> "_Rows":
        """Read the units at these rows of a piece, except those that cannot be learned from."""
        decided = piece.decisions(["action", "group"])
        every: slice | Integers = slice(None) if len(rows) == piece.chunk.count else rows
        among_all, groups = (
            decided[name].to_numpy()[every].astype(np.int64) for name in ("action", "group")
        )
        encoder, active = now.encoder(), np.array(now.active)
        local = np.full(len(now.actions), -1)
        local[active] = np.arange(len(active))
        actions = local[among_all]
        # Outcomes of a retired action are useless for the others, unless they share one model.
        active_all = bool(encoder.actions) or not (actions < 0).any()
        kept: Places | slice = slice(None) if active_all else np.flatnonzero(actions >= 0)
        # Without features, read the ids to get the number of units.
        given = piece.given(encoder.features.columns or encoder.columns)
        if len(taken := rows[kept]) < given.num_rows:
            given = given.take(taken)
        # After an amendment the policy may use fewer parts of the evidence than before.
        groups = groups[kept]
        groups = np.where(policy.still_used(state, groups), groups, -1)
        return cls(
            kept=kept,
            given=given,
            actions=np.maximum(actions[kept], 0),
            among_all=among_all[kept],
            groups=groups,
        )

    def learned(self, now: Situation, values: Floats) -> Floats:
        """Return the rewards of outcomes, after the actions' costs; higher is better."""
        return now.spec.reward.sign * now.rewards(values[self.kept], self.among_all)

    def pieces(self, now: Situation) -> Iterator[tuple[slice, Floats]]:
        """Yield the feature vectors for each unit's action, in pieces that fit into memory."""
        encoder = now.encoder()
        own = encoder.encode(self.given)
        step = BLOCK if encoder.actions else max(len(own), 1)
        for start in range(0, len(own), step):
            part = slice(start, start + step)
            rows = own[part]
            if encoder.actions:
                every = encoder.contexts(rows, tuple(range(len(now.actions))))
                rows = every[np.arange(len(every)), self.among_all[part]]
            yield part, rows

    def summands(self, now: Situation, room: Room) -> Iterator[tuple[slice, Vectors]]:
        """Yield the vectors in the form for exact sums; each is valid only until the next one."""
        encoder = now.encoder()
        if encoder.actions:
            yield from ((part, Vectors.of(rows)) for part, rows in self.pieces(now))
        else:
            yield slice(None), vectors(encoder, self.given, room)


def _learned(
    now: Situation, policy: BasePolicy, state: Any, piece: Piece, sums: GroupSums | None
) -> Any:
    if not len(piece.known) or piece.wave in now.skipped:
        return state
    rows = _Rows.of(now, policy, state, piece, piece.rows)
    rewards = rows.learned(now, piece.known.values)
    if sums is not None:
        for part, taken in rows.summands(now, sums.room):
            sums.add(taken, rows.actions[part], rows.groups[part], rewards[part])
        return state
    for part, own in rows.pieces(now):
        feedback = Feedback(own, rows.actions[part], rows.groups[part], rewards[part])
        state = policy.learn(state, feedback)
    return state


def _corrected(
    now: Situation,
    policy: BasePolicy,
    state: Any,
    piece: Piece,
    news: News,
    sums: GroupSums | None,
) -> Any:
    """Replace old values with new ones in the sums; the units stay the same."""
    low, high = piece.chunk.first, piece.chunk.first + piece.chunk.count
    here = np.flatnonzero((news.corrected.numbers >= low) & (news.corrected.numbers < high))
    if not len(here) or piece.wave in now.skipped:
        return state
    rows = _Rows.of(now, policy, state, piece, news.corrected.numbers[here] - low)
    after, before = (
        rows.learned(now, values[here]) for values in (news.corrected.values, news.before)
    )
    if sums is not None:
        for part, taken in rows.summands(now, sums.room):
            # The sums that depend only on the units cancel.
            sums.add(taken, rows.actions[part], rows.groups[part], before[part], times=-1)
            sums.add(taken, rows.actions[part], rows.groups[part], after[part])
        return state
    models = rows.actions if state.problem.models > 1 else np.zeros_like(rows.actions)
    for part, own in rows.pieces(now):
        for group in np.unique(rows.groups[part]):
            # -1: no later estimate uses the outcome, so its correction has no effect.
            if group >= 0:
                cells = np.where(rows.groups[part] == group, models[part], -1)
                change = _change(state.problem, own, before[part], after[part], cells)
                state = policy.absorb(state, int(group), change)
    return state


def _change(
    problem: Problem, vectors: Floats, before: Floats, after: Floats, cells: Integers
) -> Statistics:
    """Return the change of the sums when rewards change and units do not."""
    zero = Statistics.zero(problem.models, problem.dim)
    # Use the same kernel as learning, which sums in a fixed order; its gram matrix is not used.
    gained = zero.add(vectors, after - before, cells)
    squares = np.bincount(
        cells[cells >= 0], weights=(after**2 - before**2)[cells >= 0], minlength=problem.models
    )
    return Statistics(zero.gram, gained.moment, squares.astype(np.float64), zero.count)


def ended(policy: BasePolicy, state: Any, sums: GroupSums | None) -> Any:
    """End a wave; :func:`notes` explains deficient estimates."""
    if sums is not None:
        state = sums.absorbed(policy, state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankDeficiencyWarning)
        return policy.close(state)


# ----------------------------------------------------------------------
# Notes about an estimate: columns without information, and models with too little data.


def notes(now: Situation, state: Any) -> list[str]:
    """Describe columns that carry no information, and models with too little data."""
    numbers = {} if now.learned is None else now.learned.numbers
    said = [
        f"column {name} was constant in the first wave, so the model does not use it"
        for name, number in numbers.items()
        if number.sd == 0
    ]
    policy, encoder = now.made_policy(), now.encoder()
    said += drift_said(now, policy, state)
    determined = policy.determined(state)
    if determined is None or (determined == encoder.dim).all():
        return said
    evidence = policy.evidence_used(state)
    seen: Bools = np.logical_or.reduce(_seen(evidence), axis=0)
    if (possible := encoder.possible(seen)) is None:
        return said
    most = int(np.linalg.matrix_rank(possible, hermitian=True))
    names = [now.actions[number].name for number in now.active]
    if now.spec.model == "shared":
        names = ["all actions"]
    told: dict[str, list[str]] = {}
    for model, name in enumerate(names):
        if determined[model] < most:
            why = _undetermined(encoder, evidence, model, most)
            told.setdefault(f"(rank {determined[model]} of {most}): {why}", []).append(name)
    return said + [
        f"the outcomes so far do not determine the whole model of {', '.join(models)} {why}. "
        "Undetermined effects count as 0 until more outcomes are recorded"
        for why, models in told.items()
    ]


def drift_said(now: Situation, policy: BasePolicy, state: Any) -> list[str]:
    """Say how far the history was trusted after the outcomes so far; nothing without history."""
    if now.history is None or not isinstance(policy, LeveledPolicy):
        return []
    weights = policy.drifts(state)
    name, units = now.history["campaign"], now.history["units"]
    head = f"the history (campaign {name}, {units:,} units)"
    if len(weights) == 1:
        [drift] = weights
        how = "declared" if now.spec.history and now.spec.history.drift != "learn" else "assumed"
        return [f"{head} counts with the {how} drift, {drift:g} standard deviations of the noise"]
    best = max((each for each in weights if each is not None), key=lambda each: weights[each])
    every = ", ".join(
        f"{_roughly(weight)} {'no history' if drift is None else f'{drift:g}'}"
        for drift, weight in weights.items()
    )
    trusted, alone = _roughly(1 - weights[None]), _roughly(weights[None])
    return [
        f"{head} has {trusted} of the weight in the estimate, the outcomes of this campaign alone "
        f"{alone}; its most likely drift is {best:g} standard deviations of the noise (weights: "
        f"{every})"
    ]


def _roughly(weight: float) -> str:
    """Return a weight in whole percent."""
    if 0 < weight < 0.005:
        return "under 1%"
    return "over 99%" if 0.995 <= weight < 1 else f"{weight:.0%}"


#: The number of columns that a note names.
NAMED = 3


def _seen(evidence: Statistics) -> Bools:
    """Return which columns differ from 0 in some outcome of each model."""
    seen: Bools = np.diagonal(evidence.gram, axis1=1, axis2=2) > 0
    return seen


def _undetermined(encoder: Encoder, evidence: Statistics, model: int, most: int) -> str:
    """Say which columns the outcomes of a model do not tell apart."""
    count, gram, names = int(evidence.count[model]), evidence.gram[model], encoder.names
    if count < most:
        return f"too few outcomes, {count:,} for {most:,} numbers to estimate"
    seen = _seen(evidence)
    never = np.flatnonzero(seen.any(axis=0) & ~seen[model]).tolist()
    found = [f"no outcome with {_listed([names[each] for each in never])}"] if never else []
    # What always adds up, such as all levels of a category, is harmless.
    possible = encoder.possible(seen[model])
    told, kept = [] if possible is None else independent(possible).tolist(), independent(gram)
    for column in set(told) - set(kept.tolist()):
        others = _listed([names[each] for each in _explaining(gram, column, kept)])
        found.append(f"{names[column]} cannot be distinguished from {others}")
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ("; ".join(found[:NAMED]) or "some columns have varied only together") + more


def _explaining(gram: Floats, column: int, kept: Integers) -> list[int]:
    """Return the columns before a redundant one that together equal it."""
    before = kept[kept < column]
    size = np.sqrt(np.diag(gram))
    scaled = gram / np.outer(np.where(size > 0, size, 1.0), np.where(size > 0, size, 1.0))
    weights = np.linalg.lstsq(scaled[np.ix_(before, before)], scaled[before, column], rcond=None)[0]
    # The rest is rounding.
    found: list[int] = before[np.abs(weights) > 1e-4 * np.abs(weights).max(initial=0.0)].tolist()
    return found


def _listed(columns: Sequence[str]) -> str:
    """Name some columns; the constant is not named beside another one."""
    told = [name for name in columns if name != "intercept"] or ["the constant"]
    return ", ".join(told[:NAMED]) + (", ..." if len(told) > NAMED else "")


def aliasing(now: Situation) -> list[str]:
    """Describe columns that are redundant by construction, which does no harm."""
    used, most = now.encoder().directions() or (0, 0)
    if used == most:
        return []
    return [
        f"{used - most} of {used} model columns {'is' if used - most == 1 else 'are'} redundant "
        "(for example, the levels of a category add up to the intercept). Estimated outcomes "
        "and decisions are not affected"
    ]
