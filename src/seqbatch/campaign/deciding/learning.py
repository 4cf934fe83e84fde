"""How a wave's outcomes enter the policy: the same functions at close and in a replay."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from seqbatch.campaign.deciding.decisions import BLOCK
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import UnitChunk
from seqbatch.campaign.tables.assignments import Decided
from seqbatch.core.arrays import Bools
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.policies import Feedback
from seqbatch.policies.base import BasePolicy

#: Yields the chunks of units, with what was given, each time it is called.
Chunks = Callable[[], Iterable[UnitChunk]]


def closed(
    now: Situation,
    state: Any,
    chunks: Chunks,
    ledger: Ledger,
    *,
    since: int,
    at_event: int,
    relearn: bool,
) -> Any:
    """Return the state after the open wave ended.

    Parameters
    ----------
    now
        Where the campaign stands, the scaling of features included.
    state
        What the policy knew when the wave opened.
    chunks, ledger
        All units, and all outcomes.
    since, at_event
        The event that the state came with, and the newest one whose outcomes count.
    relearn
        Whether to start from nothing: needed where an outcome learned before was corrected.
    """
    policy = now.made_policy()
    if relearn:
        return relearned(now, chunks, ledger.known(at_event=at_event), waves=now.wave)
    fresh = ledger.first_known_after(since, at_event=at_event)
    for chunk in chunks():
        state = _learned(now, policy, state, chunk, fresh)
    return _closed(policy, state)


def relearned(now: Situation, chunks: Chunks, known: Ledger, *, waves: int) -> Any:
    """Return the state as if the first waves were learned now, wave by wave, from nothing."""
    policy = now.made_policy()
    state = policy.begin(now.problem())
    for wave in range(1, waves + 1):
        for chunk in chunks():
            if chunk.wave == wave:
                state = _learned(now, policy, state, chunk, known)
        state = _closed(policy, state)
    return state


def still_used(now: Situation, state: Any, decided: Decided) -> Bools:
    """Say for each unit whether its outcome, coming now, has a part in any estimate to come."""
    used = now.made_policy().still_used(state, decided.groups)
    if now.spec.model != "shared":
        used &= ~np.isin(decided.actions, list(now.retired))
    return used


def _learned(
    now: Situation, policy: BasePolicy, state: Any, chunk: UnitChunk, outcomes: Ledger
) -> Any:
    here = outcomes.within(chunk.first, chunk.first + chunk.count)
    if not len(here):
        return state
    rows = here.numbers - chunk.first
    decided = Decided.of(unpack(chunk.decided)).take(rows)
    encoder, active = now.encoder(), np.array(now.active)
    local = np.full(len(now.actions), -1)
    local[active] = np.arange(len(active))
    actions = local[decided.actions]
    shared = bool(encoder.actions)
    # A retired action teaches nothing about the others, unless they share one model.
    kept = np.arange(len(rows)) if shared else np.flatnonzero(actions >= 0)
    given = unpack(chunk.given)
    if len(kept) < given.num_rows:
        given = given.take(rows[kept])
    rewards = here.values[kept] * (1.0 if now.spec.reward.direction == "max" else -1.0)
    own, groups = encoder.encode(given), decided.groups[kept]
    # After an amendment the policy may keep fewer parts of the evidence apart than before.
    groups = np.where(policy.still_used(state, groups), groups, -1)
    step = BLOCK if shared else max(len(kept), 1)
    for start in range(0, len(kept), step):
        part = slice(start, start + step)
        vectors = own[part]
        if shared:
            every = encoder.contexts(vectors, tuple(range(len(now.actions))))
            vectors = every[np.arange(len(every)), decided.actions[kept][part]]
        feedback = Feedback(
            vectors, np.maximum(actions[kept][part], 0), groups[part], rewards[part]
        )
        state = policy.learn(state, feedback)
    return state


def _closed(policy: BasePolicy, state: Any) -> Any:
    """End a wave; what a deficient estimate means for a campaign is said by :func:`notes`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankDeficiencyWarning)
        return policy.close(state)


def notes(now: Situation, state: Any) -> list[str]:
    """Say which columns say nothing, and which models the data do not determine."""
    said = [
        f"column {name} was constant in the first wave; it has no part in the model"
        for name, (_, deviation) in (now.learned or {}).items()
        if deviation == 0
    ]
    determined, dim = now.made_policy().determined(state), now.encoder().dim
    if determined is None:
        return said
    names = [now.actions[number].name for number in now.active]
    if now.spec.model == "shared":
        names = ["all actions"]
    for rank in sorted(set(determined.tolist()) - {dim}):
        models = [name for name, own in zip(names, determined, strict=True) if own == rank]
        said.append(
            f"the outcomes determine {rank} of {dim} directions of the model of "
            f"{', '.join(models)}; the shortest solution is used (an intercept beside all levels "
            "of a category, constant or collinear columns, and few outcomes leave directions open)"
        )
    return said
