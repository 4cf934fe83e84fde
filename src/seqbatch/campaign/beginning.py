"""Can a campaign that was declared ever run? Asked before it is created."""

from typing import Any

from seqbatch.campaign.blobs import pack_state
from seqbatch.campaign.contract import Event
from seqbatch.campaign.situation import Situation, situation
from seqbatch.errors import InvalidArgumentError, InvalidSpecError

#: Sums of products that are kept at most: half a gigabyte in each state.
MOST_SUMS = 60_000_000


def begun(payload: dict[str, Any]) -> Situation:
    """Return the situation at creation, refusing what could never run."""
    first = Event(
        sequence=0, kind="create", at="", who="", why="", counts={}, payload=payload,
        rows_hash="", previous="", hash="",
    )  # fmt: skip
    now = situation([first])
    problem = now.problem()
    if (sums := problem.models * problem.dim**2) > MOST_SUMS:
        raise InvalidSpecError(
            f"features: the model has {problem.dim:,} columns for each of {problem.models} models, "
            f"{sums:,} sums of products; at most {MOST_SUMS:,} are kept. Use fewer features, "
            "levels or interactions, or hash categories to a smaller width."
        )
    learning = "learn" in now.spec.features.numeric.values()
    uniform = now.policy.get("first") == "uniform" or now.policy["kind"] in (
        "UniformRandom",
        "FixedAction",
    )
    if learning and not uniform:
        raise InvalidSpecError(
            'features.numeric: a scaling is learned ("learn") from a first wave that is assigned '
            f"at random, and policy {now.policy['kind']} has first = {now.policy.get('first')!r}. "
            'Set first = "uniform", or fix the scaling: {mean = ..., sd = ...}.'
        )
    return now


def first_state(now: Situation) -> bytes:
    """Return what the policy knows before the first unit."""
    try:
        return pack_state(now.made_policy().begin(now.problem()))
    except InvalidArgumentError as error:
        raise InvalidSpecError(f"policy {now.policy['kind']}: {error}") from None
