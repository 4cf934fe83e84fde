"""Create a campaign: check that the spec can run, then store it."""

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seqbatch.campaign.decide.capacity_and_budget import require_possible
from seqbatch.campaign.decide.policy_doubts import policy_doubts
from seqbatch.campaign.record.codec import pack_state
from seqbatch.campaign.record.current_situation import OVER_WAVES, Situation, situation
from seqbatch.campaign.record.earlier_campaign import known_actions, starting_point
from seqbatch.campaign.record.events import Logbook, current, sealed
from seqbatch.campaign.record.rehearsal_file import RehearsalFile, design_of
from seqbatch.campaign.record.store import Event, StateRecord, Store
from seqbatch.campaign.spec.checks import check_exact, require_planned_looks
from seqbatch.campaign.spec.input_limits import MOST_SUMS
from seqbatch.campaign.spec.masking import Key, keyed, masked
from seqbatch.campaign.spec.plan import chosen_policy, wave_sizes
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.spec.toml import check_spec, parse_spec, quoting, read_text
from seqbatch.campaign.steps.earlier import Sources, earlier_campaign, require_same_columns
from seqbatch.campaign.warehouse.decisions import inexpressible
from seqbatch.errors import (
    Doubt,
    InvalidArgumentError,
    InvalidSpecError,
    StoreError,
    UncertainCommitError,
)
from seqbatch.output_files import require_target
from seqbatch.policies.estimation import LeveledPolicy

#: A spec alone: files may be read, but no store is looked into.
NO_STORE = Sources()


@dataclass(frozen=True)
class Prepared:
    """A fully checked spec, whose campaign can be created and can run.

    Parameters
    ----------
    now
        The campaign's state after creation.
    payload
        The payload of its first event.
    state
        The policy's state before the first unit.
    key
        The action behind each code, if the campaign is masked or its interim results are withheld;
        it is not stored.
    design
        The hash of the spec as declared, which rehearsals of it name.
    """

    now: Situation
    payload: dict[str, Any]
    state: bytes
    key: Key | None = None
    design: str = ""

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What may go wrong, although the spec keeps all rules."""
        return policy_doubts(self.now)


def prepare(
    spec: str | Path | Mapping[str, Any] | Spec,
    *,
    defaults: Mapping[str, str] | None = None,
    sources: Sources = NO_STORE,
    folder: Path | None = None,
) -> Prepared:
    """Check a spec with its waves and its policy, before there is a store.

    Parameters
    ----------
    spec
        The declared spec.
    defaults
        The store's defaults for fields that the spec leaves out.
    sources
        Where to find the earlier campaign, if the spec names one.
    folder
        The folder of the spec, if it is not given as a file.

    Raises
    ------
    InvalidSpecError
        If the spec breaks a rule; the message quotes the offending lines.
    """
    # The text is kept for messages: an error about a grid quotes the line that sets it.
    text, name = "", "spec"
    if isinstance(spec, Mapping):
        spec = check_spec(spec)
    elif not isinstance(spec, Spec):
        text, name, folder = read_text(spec), str(spec), Path(spec).parent
        spec = parse_spec(text, name=name)
    design = design_of(spec)
    spec = _completed(spec, defaults or {})
    part = "grid"
    try:
        require_planned_looks(spec)
        earlier = earlier_campaign(spec, sources, folder=folder or Path())
        sizes, planned = wave_sizes(spec, starting_point(earlier, spec, spec.actions))
        part = "policy"
        known = [] if earlier is None else known_actions(earlier)
        policy = chosen_policy(spec, planned, known=known)
        payload = {
            "spec": spec.model_dump(mode="json"), "sizes": list(sizes), "policy": policy,
            "salt": fresh_salt(),
        }  # fmt: skip
        if earlier is not None:
            payload["history"] = earlier
        if text and spec.file:
            payload["file"] = spec.file
            if reading := spec.reading.model_dump(exclude_none=True):
                payload["reading"] = reading
        if spec.in_order and policy["kind"] == "UniformRandom":
            payload["balance"] = OVER_WAVES
        now, key = begun(payload), None
        if spec.masked:
            # Check the spec as declared, but store it with codes.
            coded, key = masked(spec)
            payload |= {"spec": coded.model_dump(mode="json"), "key": key.fingerprint}
            now = begun(payload)
        elif spec.interim == "committee":
            key = keyed(spec)
            payload["key"] = key.fingerprint
            now = begun(payload)
        return Prepared(now=now, payload=payload, state=first_state(now), key=key, design=design)
    except (InvalidSpecError, InvalidArgumentError) as error:
        raise quoting(error, part, text=text, name=name) from None


def with_rehearsal(prepared: Prepared, file: RehearsalFile) -> Prepared:
    """Return a checked spec whose first event names its rehearsal; refuse one of another spec."""
    file.require(prepared.design, f"the spec of campaign {prepared.now.name}")
    told = {"hash": file.hash, "seed": file.data["seed"], "campaigns": file.data["campaigns"]}
    return replace(prepared, payload={**prepared.payload, "rehearsal": told})


def fresh_salt() -> str:
    """Return random digits that keep the hash of the first event from revealing the seed.

    Viewers see the hash and everything else that it is taken over. Without a secret part, they
    could try one seed after another.
    """
    return secrets.token_hex(16)


def _completed(spec: Spec, defaults: Mapping[str, str]) -> Spec:
    """Return a spec with the store's defaults for fields it leaves out, as far as they apply."""
    unsaid = {name: value for name, value in defaults.items() if name not in spec.model_fields_set}
    made = spec.model_copy(update=unsaid)
    try:
        check_exact(made)
    except ValueError:
        # The spec does not request exact sums, so numbers without bounds use ordinary sums.
        return made.model_copy(update={"sums": spec.sums})
    return made


def begun(payload: dict[str, Any]) -> Situation:
    """Return the campaign's state at creation; refuse a campaign that could never run."""
    first = Event(
        sequence=0, kind="create", at="", who="", why="", counts={}, payload=payload,
        rows_hash="", previous="", hash="",
    )  # fmt: skip
    # Compute the state from the event that creation will write, as later calls do.
    now = situation([first])
    require_room(now)
    require_possible(now)
    _require_distinct_columns(now)
    require_same_columns(now)
    learning = now.spec.features.learning
    if learning and now.history is None and not now.made_policy().starts_blind:
        raise InvalidSpecError.at(
            ("features",),
            "features: the scaling, quantiles, rare levels or values for missing numbers of "
            f"{', '.join(learning[:8])} are learned from a first wave that is assigned at "
            f"random, but policy {now.policy['kind']} has first = {now.policy.get('first')!r}. "
            'Set first = "uniform", or declare it: {scale = {mean = ..., sd = ...}, clip = '
            "false}.",
        )
    if now.spec.rows == "elsewhere" and (found := inexpressible(now)):
        raise InvalidSpecError.at(
            ("rows",), f'rows = "elsewhere" needs decisions that SQL can make: {"; ".join(found)}'
        )
    if lacks_mixing(now):
        raise InvalidSpecError.at(
            ("policy", "waves"),
            f'policy {now.policy["kind"]} has waves = "own level", which compares actions within '
            "waves, but after the first wave nothing ensures that a wave has several actions: "
            "upper confidence bounds may give a whole wave one action. Declare randomised (such as "
            "0.1: a tenth of the units get an action at random) or floor (such as 0.02: every "
            'action has at least that probability); or set waves = "same level".',
        )
    if now.spec.in_order and not has_equal_draws(now):
        raise InvalidSpecError.at(
            ("draw",),
            f'draw = "{now.spec.draw}" balances actions that are equally likely, but policy '
            f"{now.policy['kind']} prefers actions for every unit. Declare randomised (such as "
            '0.1: a tenth of the units get an action at random), or policy.kind = "UniformRandom"; '
            "or leave draw out.",
        )
    if lacks_comparison(now):
        raise InvalidSpecError.at(
            ("policy", "first"),
            'policy.first = "design" decides the action of every unit of the first wave, and no '
            "later wave is certain to give every action a chance: findings would have nothing to "
            "compare. Declare floor (such as 0.02: every action has at least that probability) or "
            "randomised (such as 0.1: a tenth of the units get an action at random); or set "
            'first = "uniform".',
        )
    if not keeps_control(now):
        raise InvalidSpecError.at(
            ("control",),
            "control: after the first wave nothing ensures that any unit gets "
            f"{now.spec.control!r}, so there might be nothing to compare with. Declare "
            "randomised (such as 0.1: a tenth of the units get an action at random) or floor "
            "(such as 0.02: every action has at least that probability); or leave control out.",
        )
    return now


def has_equal_draws(now: Situation) -> bool:
    """Return whether any wave draws some actions with equal probabilities."""
    policy = now.made_policy()
    blind = policy.starts_blind and now.fixed is None
    return bool(now.spec.randomised or now.floor or policy.explored or blind)


def keeps_control(now: Situation) -> bool:
    """Return whether every wave is certain to give the control, if any, to some units."""
    names = [action.name for action in now.actions]
    if now.spec.control is None or names.index(now.spec.control) in now.retired:
        return True
    policy = now.made_policy()
    by_chance = policy.starts_blind and len(now.sizes) == 1
    always = now.fixed is not None and now.spec.control == names[now.fixed]
    return bool(now.spec.randomised or now.floor or policy.explored or always or by_chance)


def lacks_mixing(now: Situation) -> bool:
    """Return whether waves have their own levels, but may have one action alone.

    That is so with upper confidence bounds: an action that is not tried within a wave has wide
    bounds for all of it. Estimates alone differ between units with different features.
    """
    policy = now.made_policy()
    leveled = isinstance(policy, LeveledPolicy) and policy.leveled
    return leveled and policy.optimistic and not (now.spec.randomised or now.floor)


def lacks_comparison(now: Situation) -> bool:
    """Return whether the first wave is by design, and no wave gives every action a chance.

    Thompson sampling gives all of them one, but for a last wave that is greedy.
    """
    policy = now.made_policy()
    if getattr(policy, "first", None) != "design":
        return False
    drawn = policy.sharing == "thompson" and len(now.sizes) > 1 + policy.ends_greedily
    return not (now.spec.randomised or now.floor or policy.explored or drawn)


def _require_distinct_columns(now: Situation) -> None:
    """Refuse features whose model columns would have the same name."""
    twice = [name for name, count in Counter(now.encoder().names).items() if count > 1]
    if twice:
        raise InvalidSpecError.at(
            ("features",),
            f"features: several columns of the model would be called {', '.join(twice[:8])}. "
            "Rename a column of the file, or leave a repeated interaction out.",
        )


def require_room(now: Situation) -> None:
    """Refuse a campaign whose policy state would not fit into memory."""
    problem, policy = now.problem(), now.made_policy()
    if (sums := policy.numbers_kept(problem)) > MOST_SUMS:
        raise InvalidSpecError.at(
            ("features",),
            f"features: the model has {problem.dim:,} columns for each of {problem.models} "
            f"models, {sums:,} sums of products for {now.policy['kind']}; at most {MOST_SUMS:,} "
            "are allowed. Use fewer features, levels, interactions, waves or samples, or hash "
            "categories to a smaller width.",
        )


def first_state(now: Situation) -> bytes:
    """Return the policy's state before the first unit, as bytes."""
    try:
        return pack_state(now.made_policy().begin(now.problem()))
    except InvalidArgumentError as error:
        raise InvalidSpecError.at(("policy",), f"policy {now.policy['kind']}: {error}") from None


def create(
    store: Store, logbook: Logbook, prepared: Prepared, *, key: str | Path | None = None
) -> None:
    """Store a campaign with a checked spec; its name must be free.

    The key is written first, because without it a masked campaign could never be unmasked, and
    withheld results never be seen. If the campaign was not stored, the key is removed; if that is
    not known, it stays.
    """
    if (made := prepared.key) is None:
        if key is not None:
            rule = "left out: the campaign is not masked, and its interim results are open"
            raise InvalidArgumentError("key", rule, key)
        keep(store, logbook, prepared)
        return
    if key is None:
        raise InvalidArgumentError(
            "key", "a file for the key of the campaign", "none",
            "It opens withheld results, and says which code is which action. It is stored nowhere "
            "else.",
        )  # fmt: skip
    if Path(key).exists():
        raise _existing(key)
    target = require_target(key, name="key", apart_from={"the store": store.files})
    try:
        made.write(target)
    except FileExistsError:
        # Another call has written it since; it is not ours to remove.
        raise _existing(key) from None
    try:
        keep(store, logbook, prepared)
    except UncertainCommitError as error:
        if _not_created(store, prepared):
            target.unlink(missing_ok=True)
            raise StoreError(
                f"{error} Meanwhile it is known that campaign {prepared.now.name} was not stored. "
                "Nothing was changed; you can make the same call again."
            ) from error
        raise UncertainCommitError(
            f"{error} The key stays in {target}. List the campaigns: if {prepared.now.name} is "
            "there, keep the key, because there is no other; if not, "
            "delete the key and make the same call again."
        ) from error
    except BaseException:
        # An interruption or a failure may come while the store commits.
        if _not_created(store, prepared):
            target.unlink(missing_ok=True)
        raise


def _existing(key: str | Path) -> InvalidArgumentError:
    return InvalidArgumentError(
        "key", "a new file", f"{key}, which exists",
        "Choose another name: a key is never overwritten, because a masked campaign cannot be "
        "read without it.",
    )  # fmt: skip


class _AbsentError(Exception):
    """Ends a trial creation: the name is free."""


def _not_created(store: Store, prepared: Prepared) -> bool:
    """Return whether the store says that the campaign was not created; False if it does not answer.

    Either the name is free, or it belongs to a campaign with another key. Beginning to create it
    waits for a commit that the server may still be working on.
    """
    name = prepared.now.name
    try:
        with store.create(name):
            raise _AbsentError
    except _AbsentError:
        return True
    except Exception:  # the name is taken, or the store does not answer
        pass
    try:
        with store.read(name) as reader:
            return current(reader).key != prepared.now.key
    except Exception:  # the store does not answer
        return False


def keep(store: Store, logbook: Logbook, prepared: Prepared) -> None:
    """Store a campaign, without its key if it has one."""
    now = prepared.now
    with store.create(now.name) as change:
        state = StateRecord(event=1, wave=0, content=prepared.state, hash="")
        state = sealed(now.name, state)
        change.add_state(state)
        logbook.write(
            change,
            None,
            kind="create",
            counts={"waves": len(now.sizes), "actions": len(now.actions)},
            payload=prepared.payload,
            rows=[state.hash],
        )
