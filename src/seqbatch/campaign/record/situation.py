"""Where a campaign stands: the fold of its events, and nothing else."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import Any, cast

from seqbatch import grids, policies
from seqbatch.campaign.contract import Event
from seqbatch.campaign.declaration import check_spec
from seqbatch.campaign.features import Encoder
from seqbatch.campaign.spec import Action, Spec
from seqbatch.core import Problem
from seqbatch.errors import CampaignStateError, InvalidArgumentError, InvalidSpecError, StoreError
from seqbatch.planning import plan
from seqbatch.policies import Policy
from seqbatch.policies.base import BasePolicy


@dataclass(frozen=True)
class Situation:
    """What the events up to now say.

    Parameters
    ----------
    spec
        The declaration at creation.
    actions
        Every action there ever was, in the order of their numbers.
    retired
        The numbers of those that are no longer given.
    sizes
        The waves' sizes: as planned, or as expected where the calendar decides.
    floor
        The least probability of an action.
    policy
        The policy's name and parameters.
    wave
        The number of the open wave; one more than there are waves when all are closed.
    units
        Units assigned in each wave so far.
    learned
        Scaling learned from the first wave, once it is closed.
    closes
        The number of the event that closed each wave.
    sequence, hash
        Of the newest event.
    aborted
        Whether the campaign was ended early.
    """

    spec: Spec
    actions: tuple[Action, ...]
    retired: frozenset[int]
    sizes: tuple[int, ...]
    floor: float
    policy: dict[str, Any]
    wave: int = 1
    units: tuple[int, ...] = (0,)
    learned: dict[str, tuple[float, float]] | None = None
    closes: tuple[int, ...] = field(default=())
    sequence: int = 0
    hash: str = ""
    aborted: bool = False

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self.spec.name

    @property
    def active(self) -> tuple[int, ...]:
        """The numbers of the actions that are given."""
        return tuple(n for n in range(len(self.actions)) if n not in self.retired)

    @property
    def fixed(self) -> int | None:
        """The number of the action that everybody gets, None where the policy is another."""
        return int(self.policy["action"]) if self.policy["kind"] == "FixedAction" else None

    @property
    def finished(self) -> bool:
        """Whether no wave is left."""
        return self.wave > len(self.sizes)

    @property
    def condition(self) -> str:
        """One word: open, finished or aborted."""
        return "aborted" if self.aborted else "finished" if self.finished else "open"

    @property
    def left(self) -> int | None:
        """How many units the open wave still takes; None where the calendar decides."""
        if self.spec.grid.calendar:
            return None
        return 0 if self.finished else self.sizes[self.wave - 1] - self.units[self.wave - 1]

    @property
    def assigned(self) -> int:
        """Units assigned in all."""
        return sum(self.units)

    def encoder(self, *, wave: int | None = None) -> Encoder:
        """Return the encoder for learning now, or as it was for deciding in a wave."""
        traits = tuple(action.features for action in self.actions)
        return Encoder(
            unit=self.spec.unit,
            features=self.spec.features,
            other=self.spec.on_unseen_category == "other",
            learned=None if wave == 1 else self.learned,
            actions=traits if self.spec.model == "shared" else (),
        )

    def problem(self) -> Problem:
        """Return what the policy is told."""
        return Problem(
            ends=tuple(accumulate(self.sizes)),
            actions=len(self.active),
            dim=self.encoder().dim,
            layout="shared" if self.spec.model == "shared" else "block",
        )

    def made_policy(self) -> Policy:
        """Return the policy, a fixed action by its place among those that are given."""
        if (fixed := self.fixed) is None:
            return make_policy(self.policy)
        place = sum(number < fixed for number in self.active)
        return make_policy({**self.policy, "action": place})

    def require_open(self) -> None:
        """Refuse what only an open campaign allows."""
        if self.aborted:
            raise CampaignStateError(f"campaign {self.name} was aborted; it takes no more units.")
        if self.finished:
            raise CampaignStateError(
                f"campaign {self.name}: all {len(self.sizes)} waves are closed. Add waves with "
                "amend, or create a new campaign."
            )


def situation(events: Sequence[Event]) -> Situation:
    """Fold events, in their order, into where the campaign stands."""
    return deque(history(events), maxlen=1)[0]


def events_until(events: list[Event], at: int | None) -> list[Event]:
    """Return the events up to number `at`, all where None."""
    if at is None:
        return events
    if not 1 <= at <= len(events):
        raise InvalidArgumentError("at", f"the number of an event, 1 to {len(events)}", at)
    return events[:at]


def history(events: Sequence[Event]) -> Iterator[Situation]:
    """Yield where the campaign stood after each event."""
    for event in events:
        if "damaged" in event.payload or "damaged" in event.counts:
            raise StoreError(
                f"event {event.sequence} is damaged and cannot be read. `seqbatch campaign verify` "
                "says what else is."
            )
    first = events[0].payload
    now = Situation(
        spec=check_spec(first["spec"]),
        actions=(),
        retired=frozenset(),
        sizes=tuple(first["sizes"]),
        floor=float(first["spec"].get("floor", 0.0)),
        policy=first["policy"],
    )
    now = replace(now, actions=now.spec.actions)
    for event in events:
        now = replace(_after(now, event), sequence=event.sequence, hash=event.hash)
        yield now


def _after(now: Situation, event: Event) -> Situation:
    payload = event.payload
    if event.kind == "assign":
        units = list(now.units)
        units[now.wave - 1] += event.counts["assigned"]
        return replace(now, units=tuple(units))
    if event.kind == "close":
        learned = payload.get("scaling")
        return replace(
            now,
            wave=now.wave + 1,
            units=(*now.units, 0),
            closes=(*now.closes, event.sequence),
            learned=now.learned if learned is None else {k: tuple(v) for k, v in learned.items()},
        )
    if event.kind == "amend":
        return amended(now, payload)
    if event.kind == "abort":
        return replace(now, aborted=True)
    return now


def amended(now: Situation, payload: dict[str, Any]) -> Situation:
    """Return the situation under an amendment: new sizes, actions, or least probability."""
    added = tuple(Action.model_validate(action) for action in payload.get("add", ()))
    names = [action.name for action in now.actions]
    retired = now.retired | {names.index(name) for name in payload.get("retire", ())}
    return replace(
        now,
        actions=(*now.actions, *added),
        retired=frozenset(retired),
        sizes=tuple(payload.get("sizes", now.sizes)),
        floor=float(payload.get("floor", now.floor)),
    )


def wave_sizes(spec: Spec) -> tuple[tuple[int, ...], dict[str, Any] | None]:
    """Return the waves' sizes, and the plan's policy where there is a plan."""
    grid = spec.grid
    if grid.sizes is not None:
        return grid.sizes, None
    if grid.calendar:
        assert grid.units is not None
        assert grid.waves is not None
        return grids.uniform(units=grid.units, batches=grid.waves).sizes, None
    assert grid.plan is not None
    return _planned(spec, grid.plan)


def _planned(spec: Spec, wanted: dict[str, Any]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Plan with the declaration's own actions and features."""
    for name in ("actions", "features", "dim"):
        if name in wanted:
            raise InvalidSpecError(
                f"grid.plan: {name} comes from the declaration itself; leave it out."
            )
    shared = spec.model == "shared"
    encoder = Encoder(
        unit=spec.unit,
        features=spec.features,
        other=spec.on_unseen_category == "other",
        learned=None,
        actions=tuple(action.features for action in spec.actions) if shared else (),
    )
    size: dict[str, Any] = {"dim": encoder.dim}
    if not shared:
        size = {"features": encoder.dim - int(spec.features.intercept)}
    try:
        made = plan(actions=len(spec.actions), **size, **wanted)
    except TypeError as error:
        raise InvalidSpecError(f"grid.plan must be arguments of plan(): {error}.") from None
    except InvalidArgumentError as error:
        raise InvalidSpecError(f"grid.plan: {error}") from None
    return made.grid.sizes, described(made.policy)


def recommended_policy(spec: Spec) -> dict[str, Any]:
    """Return the policy of a campaign whose declaration states neither a policy nor a plan.

    Where units differ, pure exploitation, which needs no guess of the noise and which plans prefer
    throughout. Without features an early mistake would never be seen, and Thompson sampling goes
    on looking; half the reward's range stands for the noise.
    """
    if spec.features.columns or spec.model == "shared":
        return {"kind": "SBPE", "first": "uniform", "ties": "random"}
    low, high = spec.reward.range or (-1.0, 1.0)
    scale = (high - low) / 2
    return {"kind": "ThompsonSampling", "scale": scale, "first": "uniform", "ties": "random"}


def chosen_policy(spec: Spec, planned: dict[str, Any] | None) -> dict[str, Any]:
    """Return the policy's name and all of its parameters, the defaults filled in."""
    if spec.policy is None:
        return described(make_policy(planned or recommended_policy(spec)))
    wanted = spec.policy.model_dump()
    kind = getattr(policies, wanted["kind"], None)
    if isinstance(kind, type) and issubclass(kind, BasePolicy):
        known = {field.name for field in fields(kind)}
        for name, value in (("first", "uniform"), ("ties", "random")):
            if name in known:
                wanted.setdefault(name, value)
    return described(make_policy(wanted))


def make_policy(wanted: dict[str, Any]) -> Policy:
    """Return the policy of a name and parameters."""
    parameters = {name: value for name, value in wanted.items() if name != "kind"}
    kind = getattr(policies, wanted["kind"], None) if wanted["kind"] in policies.__all__ else None
    if not (isinstance(kind, type) and issubclass(kind, BasePolicy)) or kind is policies.Oracle:
        known = [
            name
            for name in policies.__all__
            if isinstance(found := getattr(policies, name), type)
            and issubclass(found, BasePolicy)
            and found is not policies.Oracle
        ]
        raise InvalidSpecError(
            f"policy.kind must be one of {', '.join(known)}; received {wanted['kind']!r}."
        )
    try:
        return cast(Policy, kind(**parameters))
    except TypeError as error:
        raise InvalidSpecError(f"policy must be parameters of {kind.__name__}: {error}.") from None


def described(policy: Any) -> dict[str, Any]:
    """Return a policy's name and parameters as plain values."""
    parameters = {field.name: getattr(policy, field.name) for field in fields(policy)}
    return {"kind": type(policy).__name__, **parameters}
