"""Checks that the parts of a spec fit together."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from seqbatch.campaign.spec.base import SettingError, distinct
from seqbatch.campaign.spec.eligibility import BooleanColumn, Kind, Missing, columns, parsed
from seqbatch.campaign.spec.features import Hashed
from seqbatch.campaign.spec.metrics import AMOUNT, Metric
from seqbatch.campaign.spec.objective import RollOut
from seqbatch.errors import InvalidSpecError

if TYPE_CHECKING:
    from seqbatch.campaign.spec.spec import Spec


# ----------------------------------------------------------------------
# Check that the objective is one thing: a metric, or money in the currency of the costs.


def check_objective(spec: "Spec") -> None:
    """Refuse an objective whose metrics, value and costs do not fit together."""
    objective = spec.objective
    for name in objective.weights:
        if name not in spec.metrics:
            near = get_close_matches(name, spec.metrics, n=1)
            meant = f"did you mean {near[0]}?" if near else f"declare it as [metrics.{name}]"
            raise SettingError(
                f"objective.{objective.setting} must name a metric ({', '.join(spec.metrics)}); "
                f'received "{name}": {meant}',
                ("objective", objective.setting),
            )
    terms = spec.reward.terms
    if capped := [metric.name for metric in terms if len(terms) > 1 and metric.cap is not None]:
        raise SettingError(
            f"metrics.{capped[0]}.cap cannot be combined with an objective of several metrics",
            ("metrics", capped[0], "cap"),
            ("objective", objective.setting),
        )
    _check_subtracted(spec)
    _check_currency(spec)
    _check_costs(spec)
    _check_purpose(spec)


def _check_purpose(spec: "Spec") -> None:
    """Refuse a purpose that the policy or the model cannot serve."""
    purpose = spec.objective.purpose
    if purpose == "earn":
        return
    if spec.policy is not None:
        raise SettingError(
            "objective.purpose chooses the policy: leave [policy] out, or leave purpose out and "
            "declare all of the policy yourself",
            ("objective", "purpose"),
            ("policy", "kind"),
        )
    if isinstance(purpose, RollOut) and spec.model == "shared":
        raise SettingError(
            "objective.purpose = {after = ...} needs a model for each action: leave out "
            'model = "shared", or choose "earn" or "choose"',
            ("objective", "purpose"),
            "model",
        )


def check_history(spec: "Spec") -> None:
    """Refuse a history where it would not fit, or would tell what a mask hides."""
    if spec.history is None:
        return
    if spec.masked:
        raise SettingError(
            "history cannot be combined with masked = true: what is known of each action would "
            "show which code it has",
            "history",
            "masked",
        )
    if spec.model == "shared":
        raise SettingError(
            "history needs a model for each action, because its sums are by action: leave out "
            'model = "shared", or history',
            "history",
            "model",
        )
    if isinstance(spec.objective.purpose, RollOut):
        raise SettingError(
            "objective.purpose = {after = ...} chooses the policy Lookahead, which cannot start "
            'from a history: leave one of the two out, or choose "earn" or "choose"',
            "history",
            ("objective", "purpose"),
        )


def _check_subtracted(spec: "Spec") -> None:
    """Refuse to subtract costs from something that is not money."""
    reward, objective, currency = spec.reward, spec.objective, spec.money
    amounts = all(metric.kind == AMOUNT for metric in reward.terms)
    # If only the currency is missing, the next check says so.
    if not objective.less_costs or reward.money or (amounts and currency is None):
        return
    first = next((one for one in reward.terms if one.kind != AMOUNT), reward.terms[0])
    measured = " and ".join(f'"{one.name}" ({_measured(one)})' for one in reward.terms)
    if len(reward.terms) > 1:
        advice = f"Name only amounts in {currency or 'one currency'}"
    elif amounts:
        advice = f'If it is in {currency}, declare that (metrics.{first.name}.unit = "{currency}")'
    else:
        beside = "" if currency else ', with currency = "EUR"'
        advice = f"Say what one {first.name} is worth (objective.value = 12.50{beside})"
    raise SettingError(
        f"a cost{f' in {currency}' if currency else ''} cannot be subtracted from "
        f"{_what(first)}. objective.{objective.setting} is {measured}, and less_costs is true. "
        f"{advice}, or set less_costs = false: costs then count against the budget alone",
        ("objective", "less_costs"),
    )


def _measured(metric: Metric) -> str:
    return metric.kind if metric.unit is None else f"{metric.kind} in {metric.unit}"


def _what(metric: Metric) -> str:
    """Return what a metric measures, with the article."""
    if metric.kind != AMOUNT:
        return f"a {metric.kind} metric"
    return "an amount without a unit" if metric.unit is None else f"an amount in {metric.unit}"


def _check_currency(spec: "Spec") -> None:
    budget = None if spec.budget is None else spec.budget.unit
    if budget is not None and spec.currency is not None and budget != spec.currency:
        raise SettingError(
            f'budget.unit is "{budget}", but currency is "{spec.currency}", and costs are in '
            "that currency: convert the budget, or leave budget.unit out",
            ("budget", "unit"),
        )
    needs = [name for name in ("value", "less_costs") if getattr(spec.objective, name)]
    if needs and spec.money is None:
        raise SettingError(
            f'objective.{needs[0]} is money: declare its currency, as in currency = "EUR"',
            ("objective", needs[0]),
        )
    metric = spec.reward.terms[0]
    if spec.objective.value is not None and metric.kind == AMOUNT and metric.unit == spec.money:
        raise SettingError(
            f"objective.value says what one {metric.name} is worth, but {metric.name} is an "
            f"amount in {metric.unit} already: leave objective.value out",
            ("objective", "value"),
        )


def _check_costs(spec: "Spec") -> None:
    """Refuse an objective in money that leaves open whether costs are subtracted."""
    reward, objective = spec.reward, spec.objective
    amounts = all(metric.kind == AMOUNT for metric in reward.terms)
    likely = spec.money is None and reward.unit is not None and amounts
    costs = any(action.cost for action in spec.actions)
    if objective.less_costs is not None or not costs or not (reward.money or likely):
        return
    declare = f'declare the currency of the costs (currency = "{reward.unit}"), and '
    raise SettingError(
        f"the objective is an amount in {reward.unit}, and actions have costs: "
        f"{declare if likely else ''}say whether to subtract them. objective.less_costs = true "
        "is profit; with less_costs = false, costs count against the budget alone",
        ("objective", objective.setting),
    )


# ----------------------------------------------------------------------
# Check eligibility, capacities, budgets and strata against the rest of a spec.


def check_constraints(spec: "Spec") -> None:
    """Refuse constraints that contradict each other or name something undeclared."""
    names = [action.name for action in spec.actions]
    for part in ("eligible", "capacity"):
        if unknown := [name for name in getattr(spec, part) if name not in names]:
            raise SettingError(
                f"{part} must name actions ({', '.join(names)}); received {', '.join(unknown)}",
                part,
            )
    if spec.draw == "independent" and (spec.limited or spec.strata):
        given = "strata" if spec.strata else "capacity" if spec.capacity else "budget"
        raise SettingError(
            f'draw = "independent" cannot be combined with {given}: independent draws do not '
            'fix how many units get an action. Use draw = "balanced", or leave draw out',
            "draw",
        )
    _check_in_order(spec)
    if spec.masked:
        _check_masked(spec)
    _check_budget(spec)
    _check_fallback(spec, names)
    _check_rules(spec)
    _check_strata(spec)


def _check_in_order(spec: "Spec") -> None:
    """Refuse blocks and minimisation that could not treat all actions in the same way."""
    for setting, draw in (("block_sizes", "blocks"), ("biased_coin", "minimise")):
        if getattr(spec, setting) not in ((), None) and spec.draw != draw:
            raise SettingError(f'{setting} is only for draw = "{draw}"', setting, "draw")
    if not spec.in_order:
        return
    if spec.limited or spec.eligible:
        given = "capacity" if spec.capacity else "budget" if spec.budget else "eligible"
        why = "limits change the probabilities of actions from file to file"
        if given == "eligible":
            why = "some units may not get every action"
        raise SettingError(
            f'draw = "{spec.draw}" cannot be combined with {given}: it balances actions that are '
            f'equally likely for every unit, but {why}. Use draw = "balanced", which balances the '
            "units of each file",
            "draw",
        )
    count = len(spec.actions)
    if spec.draw == "blocks":
        distinct(tuple(map(str, spec.block_sizes)), "block_sizes", "block_sizes")
        if odd := [size for size in spec.block_sizes if size % count]:
            least = -(-odd[0] // count) * count
            raise SettingError(
                f"block_sizes must be multiples of {count}, the number of actions: a block has "
                f"every action equally often. Received {odd[0]}; write {least}",
                "block_sizes",
            )
        return
    if not spec.strata:
        raise SettingError(
            'draw = "minimise" needs strata: the columns within whose values the actions are '
            'balanced, as in strata = ["centre", "sex"]. Without any, use draw = "blocks"',
            "strata",
            "draw",
        )
    if not 1 / count < spec.favour < 1:
        raise SettingError(
            "biased_coin is the probability of the action that balances best: it must be above "
            f"1 / {count}, which would not balance, and below 1, which would leave nothing to "
            f"chance; received {spec.favour:g}. The usual value is 0.8",
            "biased_coin",
        )


def _check_masked(spec: "Spec") -> None:
    """Refuse settings that would reveal the actions of a masked campaign."""
    telling = {
        'model = "shared"': spec.model == "shared",
        "costs of actions": any(action.cost for action in spec.actions),
        "eligible": bool(spec.eligible),
        "fallback": spec.fallback is not None,
        "capacity": bool(spec.capacity),
        "a policy that always gives one action": (
            spec.policy is not None and spec.policy.kind == "FixedAction"
        ),
    }
    if found := [name for name, there in telling.items() if there]:
        raise SettingError(
            "masked = true cannot be combined with settings that reveal the actions: "
            f"{', '.join(found)}",
            "masked",
        )


def _check_budget(spec: "Spec") -> None:
    if spec.budget is None:
        return
    costs = [action.cost for action in spec.actions]
    if min(costs) < 0 or max(costs) == 0:
        raise SettingError(
            "budget limits the actions' costs: no cost may be below 0, and at least one must be "
            'above 0, as in actions = ["none", {name = "call", cost = 0.4}]',
            "budget",
        )


def _check_fallback(spec: "Spec", names: list[str]) -> None:
    if spec.fallback is None:
        return
    if spec.fallback not in names:
        raise SettingError(
            f"fallback must be one of the actions ({', '.join(names)}); received {spec.fallback}",
            "fallback",
        )
    if spec.fallback in spec.eligible:
        raise SettingError(
            f"fallback = {spec.fallback!r} is the action for units that are eligible for no "
            "other action, so it cannot have a rule in eligible",
            "fallback",
        )
    if spec.fallback == spec.control:
        raise SettingError(
            f"control = {spec.control!r} cannot also be the fallback: a unit with the fallback "
            "could get nothing else, so it cannot be compared with other units. Declare a "
            "separate action as the fallback",
            "control",
        )
    if len(spec.eligible) < len(names):
        free = [name for name in names if name not in spec.eligible]
        if free != [spec.fallback]:
            raise SettingError(
                f"fallback is never needed: every unit may get {', '.join(free)}. Leave it out, "
                "or give every other action a rule in eligible",
                "fallback",
            )


def _check_rules(spec: "Spec") -> None:
    """Refuse rules that cannot be parsed, and columns used as the wrong type."""
    own = dict.fromkeys(_outcomes(spec), "an outcome")
    own |= dict.fromkeys(spec.unit, "the unit's id")
    kinds = _known_kinds(spec, own)
    for action, text in spec.eligible.items():
        try:
            rule = parsed(text)
        except ValueError as error:
            raise SettingError(f"eligible.{action}: {error}", ("eligible", action)) from None
        for name, kind in columns(rule):
            if name in own:
                raise SettingError(
                    f"eligible.{action} uses {name}, which is {own[name]}: a rule may use only "
                    "columns that are known before a unit is assigned",
                    ("eligible", action),
                )
            if name in spec.features.date:
                raise SettingError(
                    f"eligible.{action} uses {name}, a date, but rules cannot compare dates; "
                    "give the units a yes-or-no column instead",
                    ("eligible", action),
                )
            if name not in kinds and isinstance(rule, BooleanColumn | Missing):
                kinds[name] = kind or "text"
            if name not in kinds:
                said = _unknown(action, name, kind or "text", kinds)
                raise SettingError(said, ("eligible", action))
            if kind is not None and kinds[name] != kind:
                raise SettingError(
                    f"eligible.{action} uses {name} as {_said(kind)}, but it is "
                    f"{_said(kinds[name])}",
                    ("eligible", action),
                )


def _unknown(action: str, name: str, kind: Kind, known: dict[str, Kind]) -> str:
    near = get_close_matches(name, known, n=1)
    meant = f"did you mean {near[0]}? If not, declare" if near else "declare"
    return (
        f"eligible.{action} uses the column {name}, which is not declared; {meant} it: "
        f'columns = {{{name} = "{kind}"}}'
    )


def _known_kinds(spec: "Spec", own: dict[str, str]) -> dict[str, Kind]:
    """Return the columns that rules may use, each with its type."""
    kinds = _feature_kinds(spec)
    taken = {**dict.fromkeys(kinds, "a feature or the cluster"), **own}
    taken |= dict.fromkeys(spec.features.date, "a feature or the cluster")
    if twice := [name for name in spec.columns if name in taken]:
        raise SettingError(
            f"columns cannot declare {twice[0]}, which is already {taken[twice[0]]}", "columns"
        )
    strata: dict[str, Kind] = dict.fromkeys(spec.strata, "text")
    return strata | spec.columns | kinds


def _outcomes(spec: "Spec") -> set[str]:
    return {metric.column for metric in spec.metrics.values()}


def _feature_kinds(spec: "Spec") -> dict[str, Kind]:
    features = spec.features
    kinds: dict[str, Kind] = dict.fromkeys(features.numeric, "number")
    kinds |= dict.fromkeys(features.boolean, "yes or no")
    kinds |= dict.fromkeys(features.categorical, "text")
    return kinds | ({} if spec.cluster is None else {spec.cluster: "text"})


def _said(kind: Kind) -> str:
    return {"number": "a number", "text": "a text", "yes or no": "a yes or no"}[kind]


def _check_strata(spec: "Spec") -> None:
    distinct(spec.strata, "strata", "strata")
    outcomes = _outcomes(spec)
    for name in spec.strata:
        if name in spec.features.numeric or name in spec.features.date or name in outcomes:
            raise SettingError(
                f"strata must be columns of categories, such as a centre; {name} is "
                f"{'an outcome' if name in outcomes else 'a number or a date'}",
                "strata",
            )
        if name in spec.unit:
            raise SettingError(
                f"strata cannot include {name}, which is part of the unit's id", "strata"
            )


def known_strata(spec: "Spec") -> int:
    """Return the minimum number of strata, from the declared levels."""
    count = 1
    for name in spec.strata:
        rules = spec.features.categorical.get(name)
        if rules is not None and not isinstance(rules, Hashed):
            count *= len(rules.levels)
        elif name in spec.features.boolean:
            count *= 2
    return count


# ----------------------------------------------------------------------
# Check the requirements of exact sums, and of rows that are stored elsewhere.


def check_exact(spec: "Spec") -> None:
    """Refuse exact sums of unbounded numbers."""
    if spec.sums != "exact":
        return
    if spec.reward.range is None:
        raise SettingError(
            'sums = "exact" needs bounds on the objective: declare range = [low, high] for '
            f"{', '.join(f'metrics.{one.name}' for one in spec.reward.terms if not one.limits)}",
            "sums",
        )
    rules = {**spec.features.numeric, **spec.features.date}
    open_ended = [
        name for name, rule in rules.items() if rule.range is None and rule.quantiles is None
    ]
    if open_ended:
        raise SettingError(
            'sums = "exact" needs bounds on numbers: declare range = [low, high] for '
            f"{', '.join(open_ended)}, or clip them at quantiles of the first wave, as in clip "
            "= [0.001, 0.999]",
            "sums",
        )


def check_elsewhere(spec: "Spec") -> None:
    """Refuse settings that need rows, in a campaign whose rows are stored elsewhere."""
    if spec.rows != "elsewhere":
        return
    unbounded = [f"metrics.{one.name}" for one in spec.metrics.values() if one.limits is None]
    reasons = {
        'draws = "md5" is required, since databases can compute it': spec.draws != "md5",
        'sums = "exact" is required': spec.sums != "exact",
        f"metrics need bounds: declare range = [low, high] for {', '.join(unbounded)}": bool(
            unbounded
        ),
        "clusters are not available": spec.cluster is not None,
        "outcomes cannot be waited for (after, within)": _any_declared(spec, "after", "within"),
        "rows cannot be combined or have ids (rows, row_id)": _any_declared(spec, "rows", "row_id"),
    }
    if found := [reason for reason, there in reasons.items() if there]:
        raise SettingError(f'rows = "elsewhere": {"; ".join(found)}', "rows")


def _any_declared(spec: "Spec", *settings: str) -> bool:
    """Return whether any metric has one of these settings."""
    every = spec.metrics.values()
    return any(getattr(metric, name) is not None for metric in every for name in settings)


# ----------------------------------------------------------------------
# Check who may see interim results, and who takes the looks of a masked campaign.


#: What to write in the spec of a masked campaign with a stopping rule.
KEYED = 'looks = "key holder" under [stopping], and interim = "committee"'


def check_interim(spec: "Spec") -> None:
    """Refuse settings that would show withheld results, or looks that cannot be taken."""
    if spec.stopping.looks and not spec.masked:
        raise SettingError(
            'stopping.looks = "key holder" is for masked campaigns: this one has no key, and every '
            "close takes its look. Leave looks out, or declare masked = true",
            ("stopping", "looks"),
        )
    if spec.stopping.looks and spec.interim != "committee":
        raise SettingError(
            'stopping.looks = "key holder" needs interim = "committee": the verdicts '
            "of looks and the means by code would show which code is the control",
            "interim",
        )
    if spec.interim == "open":
        return
    telling = {
        'rows = "elsewhere" (statements contain the estimates)': spec.rows == "elsewhere",
        "grid.adaptive = true (proposed sizes follow from the outcomes)": spec.grid.adaptive,
    }
    if found := [name for name, there in telling.items() if there]:
        raise SettingError(
            'interim = "committee" cannot be combined with settings that show interim results: '
            f"{', '.join(found)}",
            "interim",
        )


def require_planned_looks(spec: "Spec") -> None:
    """Refuse to create a masked campaign with a stopping rule whose looks cannot be taken.

    Stored campaigns of earlier versions may have such a spec, so parsing accepts it.
    """
    if spec.masked and spec.stopping.rule != "none" and not spec.stopping.looks:
        raise InvalidSpecError.at(
            ("stopping", "looks"),
            "stopping compares actions with the control, but masked = true hides the control. Let "
            f"the holder of the key take the looks ({KEYED}), or leave [stopping] out.",
        )
