"""The sums of an earlier campaign as a document, from which a later campaign starts.

The document says how units were encoded, what an outcome was, and which event of which campaign it
comes from. It is stored with the later campaign, which then needs neither the file nor the earlier
campaign any more. Its fingerprint shows whether it was changed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from seqbatch.campaign.features.learned_scales import LearnedFeatures
from seqbatch.campaign.spec.spec import Action, Spec
from seqbatch.core import Statistics
from seqbatch.core.arrays import Floats
from seqbatch.core.history import GUESS
from seqbatch.core.joint_regression import JointSums
from seqbatch.display import counted
from seqbatch.policies.history import LEARN, Drift, History

#: What a document says that it is, and in which version of its format.
KIND, VERSION = "sums of a campaign", 1
#: The units' probabilities were logged before their outcomes were known.
LOGGED = "logged"

Document = dict[str, Any]


def fingerprint(document: Mapping[str, Any]) -> str:
    """Return the hash of everything in a document but the hash itself."""
    facts = {name: value for name, value in document.items() if name != "fingerprint"}
    text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return blake2b(text.encode(), digest_size=20).hexdigest()


def document_of(
    spec: Spec,
    actions: Sequence[Action],
    learned: LearnedFeatures | None,
    *,
    columns: Sequence[str],
    event: int,
    newest: str,
    waves: Mapping[int, Statistics],
    noise: float,
) -> Document:
    """Return the document of a campaign.

    Parameters
    ----------
    spec, actions, learned
        Its spec, all its actions, and what it learned about its features.
    columns
        The columns of its model.
    event, newest
        The number and the hash of its newest event.
    waves
        The sums of each wave that it learned from, one cell per action.
    noise
        The residual standard deviation of an outcome.
    """
    every = list(waves.values())
    sums = JointSums.of(every, constant=0, levels=range(len(every)) if _leveled(spec) else ())
    lower = np.tril_indices(sums.dim)
    made: Document = {
        "kind": KIND,
        "version": VERSION,
        "campaign": spec.name,
        "event": event,
        "hash": newest,
        "probabilities": LOGGED,
        "units": int(sums.count.sum()),
        "waves": list(waves),
        "outcome": outcome_of(spec),
        "encoding": encoding_of(spec),
        "learned": None if learned is None else learned.plain(),
        "columns": list(columns),
        "noise": noise,
        "actions": {
            action.name: {
                "charge": spec.charge(action),
                "units": int(sums.count[row]),
                "squares": float(sums.squares[row]),
                "moment": sums.moment[row].tolist(),
                "gram": sums.gram[row][lower].tolist(),
                "units by wave": sums.level_count[row].tolist(),
                "outcomes by wave": sums.level_moment[row].tolist(),
                "columns by wave": sums.crossed[row].tolist(),
            }
            for row, action in enumerate(actions)
        },
    }
    return {**made, "fingerprint": fingerprint(made)}


def _leveled(spec: Spec) -> bool:
    """Return whether waves may have levels: the intercept holds their sums."""
    return spec.features.intercept


def outcome_of(spec: Spec) -> dict[str, Any]:
    """Return what an outcome is: what the campaign maximises, and how its metrics count."""
    reward = spec.reward
    return {
        "direction": reward.direction,
        "less_costs": reward.less_costs,
        "metrics": {
            metric.name: {
                "weight": weight, "kind": metric.kind, "unit": metric.unit, "cap": metric.cap,
                "absent": metric.absent, "within": metric.within, "rows": metric.rows,
            }
            for metric, weight in zip(reward.terms, reward.weights, strict=True)
        },
    }  # fmt: skip


def encoding_of(spec: Spec) -> dict[str, Any]:
    """Return all settings by which units become vectors.

    How a file spells numbers and dates is none of them. Days are counted back from each campaign's
    start, so that they have the same meaning.
    """
    features = spec.features.model_dump(mode="json")
    for kind in ("numeric", "date"):
        for rules in features[kind].values():
            rules.pop("format", None)
    return {**features, "on_unseen_category": spec.on_unseen_category}


# ----------------------------------------------------------------------
# Reading a document.


def damage(document: Any) -> str:
    """Return why this is no document that an export wrote; "" if it is one."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        return "is not a file of sums"
    if document.get("version") != VERSION:
        return f"has version {document.get('version')!r} of the format; {VERSION} is known"
    if document.get("probabilities") != LOGGED:
        return "does not say that the probabilities of its units were logged"
    try:
        if fingerprint(document) != document["fingerprint"]:
            return "was changed: its numbers do not match its fingerprint"
        history_of(document, list(document["actions"]), drift="learn")
        learned_of(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return f"lacks a part or has a wrong one ({type(error).__name__}: {error})"
    return ""


def learned_of(document: Document) -> LearnedFeatures | None:
    """Return what the earlier campaign learned about its features."""
    learned = document["learned"]
    return None if learned is None else LearnedFeatures.of(learned)


def history_of(document: Document, names: Sequence[str], *, drift: Drift) -> History:
    """Return the history for these actions, which are matched by name."""
    actions: dict[str, dict[str, Any]] = document["actions"]
    every, dim, waves = list(actions.values()), len(document["columns"]), len(document["waves"])
    waves *= bool(every and every[0]["units by wave"])
    lower = np.tril_indices(dim)
    gram = np.zeros((len(every), dim, dim))
    for row, one in enumerate(every):
        gram[row][lower] = one["gram"]
        gram[row].T[lower] = one["gram"]

    def stacked(name: str, *shape: int) -> Floats:
        return np.array([one[name] for one in every], dtype=np.float64).reshape(-1, *shape)

    sums = JointSums(
        gram, stacked("moment", dim), stacked("squares"), stacked("units"),
        stacked("columns by wave", waves, dim), stacked("outcomes by wave", waves),
        stacked("units by wave", waves),
    )  # fmt: skip
    rows = {name: row for row, name in enumerate(actions)}
    return History(sums, tuple(rows.get(name, -1) for name in names), drift)


def starting_point(
    document: Document | None, spec: Spec, actions: Sequence[Action]
) -> History | None:
    """Return the history of a campaign with these actions, if its spec declares one."""
    if document is None or spec.history is None:
        return None
    return history_of(document, [action.name for action in actions], drift=spec.history.drift)


def about(document: Document) -> dict[str, Any]:
    """Return which sums they are: campaign, event, hash, units, waves and fingerprint."""
    names = ("campaign", "event", "hash", "units", "waves", "fingerprint")
    return {name: document[name] for name in names}


def history_said(document: Document | None, spec: Spec) -> list[str]:
    """Return what a campaign starts from, in sentences; nothing without a history."""
    if document is None or spec.history is None:
        return []
    drift = spec.history.drift
    far = (
        f"learned from the outcomes; before any, {GUESS:g} standard deviations of the noise"
        if drift == LEARN
        else f"{drift:g} standard deviations of the noise, as declared"
    )
    names = [action.name for action in spec.actions]
    said = [
        f"Starts from the sums of campaign {document['campaign']}: "
        f"{counted(document['units'], 'unit')} of {counted(len(document['waves']), 'wave')}. "
        f"Features have the scales of that campaign. How far actions have drifted since: {far}."
    ]
    if new := [name for name in names if name not in known_actions(document)]:
        said.append(f"Without history: {', '.join(new)}.")
    return said


def known_actions(document: Document) -> list[str]:
    """Return the actions with outcomes."""
    return [name for name, one in document["actions"].items() if one["units"] > 0]


# ----------------------------------------------------------------------
# Whether a new campaign has the same outcome and the same encoding.

#: The tables of features, and what one entry is called.
KINDS = ("numeric", "date", "boolean", "categorical")


def differences(document: Document, spec: Spec) -> list[str]:
    """Return how a spec's outcome, encoding and actions differ from those of a document."""
    there, here = document["encoding"], encoding_of(spec)
    found = [*_outcomes(document["outcome"], outcome_of(spec)), *_features(there, here)]
    for name in ("intercept", "interactions", "on_unseen_category"):
        if there[name] != here[name]:
            where = name if name == "on_unseen_category" else f"features.{name}"
            found.append(f"{where} was {_said(there[name])}, here {_said(here[name])}")
    found += _charges(document, spec)
    names = [action.name for action in spec.actions]
    if not set(names) & set(known_actions(document)):
        earlier = ", ".join(known_actions(document))
        found.append(f"no action has a name of before ({earlier}): here {', '.join(names)}")
    return found


def _outcomes(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    words = {"max": "maximised", "min": "minimised"}
    if there["direction"] != here["direction"]:
        yield (
            f"the objective was {words[there['direction']]}, here it is {words[here['direction']]}"
        )
    if there["less_costs"] != here["less_costs"]:
        yield f"less_costs was {_said(there['less_costs'])}, here {_said(here['less_costs'])}"
    if list(there["metrics"]) != list(here["metrics"]):
        yield (
            f"the objective was of {' and '.join(there['metrics'])}, here of "
            f"{' and '.join(here['metrics'])}"
        )
        return
    for name, settings in here["metrics"].items():
        for setting, value in settings.items():
            if (before := there["metrics"][name][setting]) != value:
                yield f"metrics.{name}.{setting} was {_said(before)}, here {_said(value)}"


def _features(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for kind in KINDS:
        before, now = there[kind], here[kind]
        for name in before:
            if name not in now:
                yield f"feature {name} ({kind}) is missing here"
        for name in now:
            if name not in before:
                yield f"feature {name} ({kind}) is new"
            elif before[name] != now[name]:
                yield from _settings(f"features.{kind}.{name}", before[name], now[name])
        if list(before) != list(now) and set(before) == set(now):
            yield f"features.{kind} were in the order {', '.join(before)}"


def _settings(name: str, before: Any, now: Any) -> Iterator[str]:
    """Yield the settings of a feature that differ."""
    if not (isinstance(before, dict) and isinstance(now, dict)):
        yield f"{name} was {_said(before)}, here {_said(now)}"
        return
    for setting in {**before, **now}:
        if before.get(setting) != now.get(setting):
            was, is_now = _said(before.get(setting)), _said(now.get(setting))
            yield f"{name}.{setting} was {was}, here {is_now}"


def _charges(document: Document, spec: Spec) -> Iterator[str]:
    for action in spec.actions:
        one = document["actions"].get(action.name)
        if one is not None and one["charge"] != spec.charge(action):
            yield (
                f"action {action.name} cost {one['charge']:g}, here {spec.charge(action):g}, and "
                "the objective subtracts costs"
            )


def _said(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
