"""The policy's probability of each action, as SQL: the same for all, or by the highest score."""

import sys
from collections.abc import Sequence

from seqbatch.campaign.warehouse.allowed import COUNT
from seqbatch.campaign.warehouse.columns import Item
from seqbatch.campaign.warehouse.dialects import Dialect
from seqbatch.campaign.warehouse.rule import Rule
from seqbatch.campaign.warehouse.stages import Stages

#: The score of what a unit may not get: below any that a model gives.
LOWEST = -sys.float_info.max


def even(action: int) -> str:
    """Return the probability of an action where all that a unit may get have the same."""
    return f"(a{action} / {COUNT})"


def chances_of_all(
    stages: Stages, sql: Dialect, rule: Rule, kept: Sequence[Item], options: int
) -> list[str | float]:
    """Return the probabilities where everybody may get everything; numbers where they are constant.

    Parameters
    ----------
    stages
        The stages so far, to which those that rank the actions are added.
    sql, rule
        The dialect, and the open wave's rule.
    kept
        What the stages pass on.
    options
        The number of actions.
    """
    if rule.constant is not None:
        return list(rule.constant)
    among = [f"s{action}" for action in rule.candidates]
    best = among[0] if len(among) == 1 else f"GREATEST({', '.join(among)})"
    stages.add("ranked", [*kept, (best, "best")])
    won = {action: f"s{action} = best" for action in rule.candidates}
    one = _rank(stages, sql, rule, kept, won)
    zero = sql.number(0.0)
    return [
        f"CASE WHEN {won[action]} THEN {one} ELSE {zero} END" if action in won else 0.0
        for action in range(options)
    ]


def chances_of_allowed(
    stages: Stages, sql: Dialect, rule: Rule, kept: Sequence[Item], options: int
) -> list[str]:
    """Return the probabilities among what each unit may get; see :func:`chances_of_all`."""
    one, zero = sql.number(1.0), sql.number(0.0)
    if rule.constant is not None:
        if 1.0 not in rule.constant:
            return [even(action) for action in range(options)]
        # Who may not get a fixed action gets the lowest of those that are left.
        order = [rule.constant.index(1.0), *range(options)]
        first = " ".join(f"WHEN a{action} = 1 THEN {action}" for action in order)
        stages.add("picked", [*kept, (f"CASE {first} END", "best")])
        return [
            f"CASE WHEN best = {action} THEN {one} ELSE {zero} END" for action in range(options)
        ]
    low = sql.number(LOWEST)
    among = [f"CASE WHEN a{action} = 1 THEN s{action} ELSE {low} END" for action in rule.candidates]
    best = among[0] if len(among) == 1 else f"GREATEST({', '.join(among)})"
    stages.add("ranked", [*kept, (best, "best")])
    won = {action: f"a{action} = 1 AND s{action} = best" for action in rule.candidates}
    one = _rank(stages, sql, rule, kept, won)
    # Of a unit for whom nothing is known that it may get, nobody can say what is best.
    lost = " + ".join(f"a{action}" for action in rule.candidates) + " = 0"
    cases = [
        f"WHEN {won[action]} THEN {one} " if action in won else "" for action in range(options)
    ]
    return [
        f"CASE WHEN {lost} THEN {even(action)} {case}ELSE {zero} END"
        for action, case in enumerate(cases)
    ]


def _rank(
    stages: Stages, sql: Dialect, rule: Rule, kept: Sequence[Item], won: dict[int, str]
) -> str:
    """Break ties by the rule; return the probability of an action that wins.

    `won` holds when each action does, and is changed where the lowest of several takes it all.
    """
    if rule.random_ties:
        equals = " + ".join(f"CASE WHEN {each} THEN 1 ELSE 0 END" for each in won.values())
        return f"{sql.number(1.0)} / CAST(({equals}) AS {sql.double})"
    first = " ".join(f"WHEN {each} THEN {action}" for action, each in won.items())
    stages.add("picked", [*kept, (f"CASE {first} END", "best")])
    won.update({action: f"best = {action}" for action in won})
    return sql.number(1.0)
