"""Choose wave sizes and policy: as the spec declares, or from a plan."""

from collections.abc import Collection
from dataclasses import fields
from inspect import signature
from typing import Any

from seqbatch import grids
from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.spec.input_limits import MOST_PLANNED, MOST_UNITS
from seqbatch.campaign.spec.objective import RollOut
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.spec.toml import received
from seqbatch.errors import InvalidArgumentError, InvalidSpecError
from seqbatch.planning import Plan, plan
from seqbatch.policies import (
    EpsilonGreedy,
    History,
    JointRidge,
    Lookahead,
    Oracle,
    registry,
)
from seqbatch.policies.base import BasePolicy
from seqbatch.policies.estimation import OWN_LEVEL, SAME_LEVEL, WITH_HISTORY
from seqbatch.policies.joint_ridge import AVERAGED

#: Policy settings for which campaigns have other defaults than the policies: nothing can be learned
#: in a declared last wave, and outcomes have the noise that they have.
CAMPAIGN_DEFAULTS = {
    "first": "uniform", "ties": "random", "unknown": "avoid", "last": "greedy", "noise": "outcomes",
}  # fmt: skip

#: The column of the intercept among the columns of the model.
INTERCEPT = 0

#: Plan settings that come from the spec.
OWN = ("actions", "features", "dim", "history", "randomised", "floor", "after", "purpose")
#: Plan settings that would choose the randomised share, which the spec declares.
DETECTING = ("detect", "power")
#: Arguments of the planner that are not settings of the plan.
TOLD = ("quick", "progress")


def wave_sizes(
    spec: Spec, history: History | None = None
) -> tuple[tuple[int, ...], dict[str, Any] | None]:
    """Return the waves' sizes, and the plan's policy if there is a plan.

    A plan is about a campaign that starts from the history, if there is one.
    """
    grid = spec.grid
    if grid.sizes is not None:
        return grid.sizes, None
    if grid.calendar:
        assert grid.units is not None
        assert grid.waves is not None
        return grids.uniform(units=grid.units, batches=grid.waves).sizes, None
    assert grid.plan is not None
    made = planned(spec, grid.plan, history)
    return made.grid.sizes, registry.describe(made.policy)


def planned(spec: Spec, wanted: dict[str, Any], history: History | None = None) -> Plan:
    """Return the plan for the spec's own actions, features, randomised share and floor."""
    for name in OWN:
        if name in wanted:
            raise InvalidSpecError.at(
                ("grid", "plan", name),
                f"grid.plan: {name} comes from the spec itself; leave it out.",
            )
    settings = [
        name for name in signature(plan).parameters if name not in (*OWN, *DETECTING, *TOLD)
    ]
    for name in wanted:
        if name not in settings:
            raise InvalidSpecError.at(
                ("grid", "plan", name),
                f"grid.plan: {name!r} is not a setting of a plan. The settings are: "
                f"{', '.join(settings)}.",
            )
    if "units" not in wanted:
        raise InvalidSpecError.at(
            ("grid", "plan"), "grid.plan: units is missing; set it to the total number of units."
        )
    _require_small(wanted)
    shared, purpose = spec.model == "shared", spec.objective.purpose
    encoder = Encoder.of(spec, actions=spec.actions, learned=None)
    size: dict[str, Any] = {"dim": encoder.dim}
    if history is not None:
        size = {"history": history}
    elif not shared:
        size = {"features": encoder.dim - int(spec.features.intercept)}
    try:
        return plan(
            actions=len(spec.actions),
            randomised=spec.randomised,
            floor=spec.floor,
            after=spec.objective.roll_out,
            # With a vector for each unit and action, no single action suits all units.
            purpose="choose" if purpose == "choose" and not shared else "earn",
            **size,
            **wanted,
        )
    except TypeError:
        raise InvalidSpecError.at(
            ("grid", "plan"),
            f"grid.plan must have settings of the right types; received {received(wanted)}.",
        ) from None
    except (InvalidArgumentError, OverflowError) as error:
        raise InvalidSpecError.at(("grid", "plan"), f"grid.plan: {error}") from None


def _require_small(wanted: dict[str, Any]) -> None:
    """Refuse a plan that would take too long to compute."""
    for name, most in (
        ("units", MOST_UNITS), ("batches", MOST_PLANNED), ("max_batches", MOST_PLANNED),
    ):  # fmt: skip
        value = wanted.get(name)
        if isinstance(value, int) and value > most:
            raise InvalidSpecError.at(
                ("grid", "plan", name),
                f"grid.plan: {name} must be at most {most:,}; received {value}.",
            )
    for name in ("waves", "effect", "noise"):
        value = wanted.get(name)
        if isinstance(value, list) and len(value) > MOST_PLANNED:
            raise InvalidSpecError.at(
                ("grid", "plan", name),
                f"grid.plan: {name} must have at most {MOST_PLANNED} numbers; received "
                f"{len(value)}.",
            )


def recommended_policy(spec: Spec) -> dict[str, Any]:
    """Return the policy of a campaign whose spec states neither a policy nor a plan.

    If units have features, this is the joint ridge with a level for each wave: it needs no guess of
    the noise, and contexts explore. Without features pure exploitation would never discover an
    early mistake, so this is lookahead, which explores as far as later waves gain by it. If only
    the choice at the end counts, it is exploration sampling; for a roll-out, lookahead. Without
    features but with a history it is Thompson sampling.
    """
    purpose = spec.objective.purpose
    levels = OWN_LEVEL if spec.features.intercept else SAME_LEVEL
    if spec.history is not None and (purpose == "choose" or not spec.features.columns):
        # Lookahead cannot start from a history.
        objective = {"objective": "choose"} if purpose == "choose" else {}
        return {"kind": "ThompsonSampling", "waves": levels, **objective}
    if purpose == "choose":
        return {"kind": "ThompsonSampling", "objective": "choose"}
    if isinstance(purpose, RollOut):
        return {"kind": "Lookahead", "after": purpose.after}
    if spec.features.columns or spec.model == "shared":
        return {"kind": "JointRidge", "waves": levels}
    return {"kind": "Lookahead"}


def _campaign_defaults(
    spec: Spec, kind: type[BasePolicy], wanted: dict[str, Any], *, known: set[str]
) -> dict[str, Any]:
    """Return the settings of a policy for which campaigns have other defaults."""
    names = {field.name for field in fields(kind) if field.init}
    own: dict[str, Any] = {k: value for k, value in CAMPAIGN_DEFAULTS.items() if k in names}
    # After the last wave of the first two, what it teaches still counts; the third promises a share
    # of random actions in every wave.
    if wanted.get("objective") == "choose" or kind in (Lookahead, EpsilonGreedy):
        own.pop("last", None)
    if "constant" in names and spec.features.intercept:
        own["constant"] = INTERCEPT
    if spec.history is not None:
        if "estimate" in names and kind is not JointRidge:
            own["estimate"] = "pooled"
        # Greedily, an action that is new would never be tried: the first wave tries it.
        if not kind.greedy or known >= {action.name for action in spec.actions}:
            own["first"] = "fixed"
    elif kind is JointRidge:
        own["estimate"] = AVERAGED
    return own


def chosen_policy(
    spec: Spec, planned: dict[str, Any] | None, *, known: Collection[str] = frozenset()
) -> dict[str, Any]:
    """Return the policy's name and all of its parameters, including defaults.

    `known` are the actions with outcomes in the history.

    A campaign's defaults sometimes differ from the published algorithms: the first wave is
    assigned at random, ties are broken at random, and greedy policies avoid actions without data.
    Otherwise such an action would look best whenever all rewards are negative.
    """
    # A plan is about what the campaign itself earns.
    earns = spec.objective.purpose == "earn" and spec.history is None
    wanted = planned if planned and earns else recommended_policy(spec)
    if spec.policy is not None:
        wanted = spec.policy.model_dump()
        # Stated as nothing, as JSON can, it is left to the campaign as well.
        if wanted.get("first", "") is None:
            del wanted["first"]
    kind = registry.kinds().get(wanted["kind"])
    if kind is None or kind is Oracle:
        known = ", ".join(name for name, found in registry.kinds().items() if found is not Oracle)
        raise InvalidSpecError.at(
            ("policy", "kind"), f"policy.kind must be one of {known}; received {wanted['kind']!r}."
        )
    if spec.history is not None and "history" not in {field.name for field in fields(kind)}:
        raise InvalidSpecError.at(
            ("history",),
            f"history: policy {wanted['kind']} cannot start from an earlier campaign. These can: "
            f"{', '.join(WITH_HISTORY)}. Leave [policy] out, or declare one of them.",
        )
    if "history" in wanted:
        raise InvalidSpecError.at(
            ("policy", "history"),
            "policy.history: a campaign's history is declared in a separate table: [history] "
            'with campaign = "NAME", or with file = "NAME-sums.json".',
        )
    own = _campaign_defaults(spec, kind, wanted, known=set(known))
    # A declared policy overrides the campaign's defaults; a planned or recommended one does not.
    settings = {**wanted, **own} if spec.policy is None else {**own, **wanted}
    try:
        return registry.describe(registry.make(**settings))
    except InvalidArgumentError as error:
        if error.name == "policy":
            raise InvalidSpecError.at(
                ("policy", error.field), f"policy must be {error.rule}: {error.received}."
            ) from None
        raise
