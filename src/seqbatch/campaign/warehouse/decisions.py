"""Decisions as SQL: draws, scores, probabilities and actions, stage by stage."""

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from seqbatch.campaign.decide.draws import md5_key
from seqbatch.campaign.features.categorical import HashedFeature
from seqbatch.campaign.files.column_values import MISSING
from seqbatch.campaign.files.date_format import ISO
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.warehouse.assignments import DRAWS, WaveEntry, draws_in
from seqbatch.campaign.warehouse.dialects import SqlDialect
from seqbatch.campaign.warehouse.features import (
    COUNT,
    Item,
    SqlColumns,
    allowed_of,
    briefly,
    columns_of,
)
from seqbatch.campaign.warehouse.stages import Stages, id_of, named, summed, total
from seqbatch.core import Contexts
from seqbatch.errors import CampaignStateError
from seqbatch.policies.rule import Rule

# ----------------------------------------------------------------------
# The open wave's rule, if SQL can express it.


#: Columns of a statement's result beside those of the unit, and p0, p1, ...
RESULT = ("action", "campaign", "wave", "score", "probability", "randomised", "part", "problem")


def rule_of(now: Situation, state: Any) -> Rule:
    """Return the open wave's rule; refuse a campaign that SQL cannot express."""
    require_expressible(now)
    rule = now.made_policy().rule(state)
    return settled(now, rule) if rule.beyond() else rule


def settled(now: Situation, rule: Rule) -> Rule:
    """Return the rule with its probabilities as numbers, where no column tells units apart."""
    one = np.ones((1, now.encoder(wave=now.wave).dim))
    contexts = now.encoder(wave=now.wave).contexts(one, now.active)
    every = Contexts(contexts, now.problem(), None)
    weights = rule.choose(every, rule.rank(every), np.zeros(1))[1][0]
    return replace(
        rule, kind="mixture", weights=weights, samples=None, quadratic=None, epsilon=None
    )


def alike(now: Situation, rule: Rule) -> bool:
    """Return whether the rule has the same probabilities for all units."""
    encoder = now.encoder(wave=now.wave)
    # The model has nothing but a constant.
    bare = not encoder.parts and encoder.eligibility is None
    return bare and rule.staging is None


def require_expressible(now: Situation) -> None:
    """Refuse a closed campaign, and one whose decisions SQL cannot make."""
    now.require_open()
    if found := inexpressible(now):
        raise CampaignStateError(
            f"campaign {now.name} cannot be written as SQL: {'; '.join(found)}. Use assign, record "
            "and close.",
            code="not-in-sql",
        )


def inexpressible(now: Situation) -> list[str]:
    """Return the reasons why SQL cannot make a campaign's decisions, in this or a later wave."""
    spec, parts = now.spec, now.encoder(wave=now.wave).parts
    policy = now.made_policy()
    preference = policy.preference(policy.begin(now.problem()))
    beyond = [] if alike(now, preference) else preference.beyond()
    hashed = [
        name
        for name, part in parts.items()
        if isinstance(part, HashedFeature) and part.rules.by == "blake2"
    ]
    dates = [name for name, rules in spec.features.date.items() if rules.format != ISO]
    spelled = [name for name, rules in spec.features.numeric.items() if rules.format]
    taken = [name for name in spec.unit if name.lower() in RESULT or re.fullmatch("p[0-9]+", name)]
    reasons = {
        f"unit columns are called like columns of the result ({', '.join(taken)})": bool(taken),
        'draws do not use md5 (declare draws = "md5")': spec.draws != "md5",
        f'units are balanced in the order in which they come (draw = "{spec.draw}")': spec.in_order,
        "units are drawn together (a balanced draw, strata, capacities or a budget)": (
            spec.balanced and not spec.in_order
        ),
        'the actions share one model (model = "shared")': spec.model == "shared",
        "it is masked, and a statement shows every score": now.masked,
        f"the policy is {now.policy['kind']}, and units have features or eligibility: "
        f"{', '.join(beyond)}": bool(beyond),
        f'categories are hashed by blake2 (declare by = "md5": {", ".join(hashed)})': bool(hashed),
        f"dates have a format ({', '.join(dates)})": bool(dates),
        f"numbers have a format ({', '.join(spelled)})": bool(spelled),
    }
    return [reason for reason, there in reasons.items() if there]


# ----------------------------------------------------------------------
# The policy's probabilities in SQL: constant, or determined by the highest score.


#: The score of an action that a unit may not get: lower than any model's score.
LOWEST = -sys.float_info.max


def even(action: int) -> str:
    """Return an action's probability if all of a unit's actions are equally likely."""
    return f"(a{action} / {COUNT})"


def candidates_of(rule: Rule, options: int) -> list[int]:
    """Return the actions among which a highest-score rule chooses."""
    return [action for action in range(options) if rule.among is None or rule.among[action]]


def chances_of_all(
    stages: Stages, sql: SqlDialect, rule: Rule, kept: Sequence[Item], options: int
) -> list[str | float]:
    """Return the probabilities if all units may get all actions; constant ones as numbers.

    Parameters
    ----------
    stages
        The stages so far; the stages that rank the actions are appended.
    sql, rule
        The dialect and the open wave's rule.
    kept
        The columns that the stages pass on.
    options
        The number of actions.
    """
    if (constant := rule.constant(options)) is not None:
        return list(constant)
    candidates = candidates_of(rule, options)
    among = [f"s{action}" for action in candidates]
    best = among[0] if len(among) == 1 else f"GREATEST({', '.join(among)})"
    stages.add("ranked", [*kept, (best, "best")])
    won = {action: f"s{action} = best" for action in candidates}
    one = _rank(stages, sql, rule, kept, won)
    zero = sql.number(0.0)
    return [
        f"CASE WHEN {won[action]} THEN {one} ELSE {zero} END" if action in won else 0.0
        for action in range(options)
    ]


def chances_of_allowed(
    stages: Stages, sql: SqlDialect, rule: Rule, kept: Sequence[Item], options: int
) -> list[str]:
    """Return the probabilities among each unit's eligible actions; see :func:`chances_of_all`."""
    one, zero = sql.number(1.0), sql.number(0.0)
    if (constant := rule.constant(options)) is not None:
        if 1.0 not in constant:
            return [even(action) for action in range(options)]
        # A unit that may not get the fixed action gets the lowest-numbered action that it may get.
        order = [constant.index(1.0), *range(options)]
        first = " ".join(f"WHEN a{action} = 1 THEN {action}" for action in order)
        stages.add("picked", [*kept, (f"CASE {first} END", "best")])
        return [
            f"CASE WHEN best = {action} THEN {one} ELSE {zero} END" for action in range(options)
        ]
    low = sql.number(LOWEST)
    candidates = candidates_of(rule, options)
    among = [f"CASE WHEN a{action} = 1 THEN s{action} ELSE {low} END" for action in candidates]
    best = among[0] if len(among) == 1 else f"GREATEST({', '.join(among)})"
    stages.add("ranked", [*kept, (best, "best")])
    won = {action: f"a{action} = 1 AND s{action} = best" for action in candidates}
    one = _rank(stages, sql, rule, kept, won)
    # A unit that may get no candidate gets one of its eligible actions, each equally likely.
    lost = " + ".join(f"a{action}" for action in candidates) + " = 0"
    cases = [
        f"WHEN {won[action]} THEN {one} " if action in won else "" for action in range(options)
    ]
    return [
        f"CASE WHEN {lost} THEN {even(action)} {case}ELSE {zero} END"
        for action, case in enumerate(cases)
    ]


def _rank(
    stages: Stages, sql: SqlDialect, rule: Rule, kept: Sequence[Item], won: dict[int, str]
) -> str:
    """Break ties by the rule; return the probability of a winning action.

    `won` holds the condition under which each action wins. If ties go to the lowest-numbered
    action, the conditions are replaced.
    """
    if rule.ties == "random":
        equals = " + ".join(f"CASE WHEN {each} THEN 1 ELSE 0 END" for each in won.values())
        return f"{sql.number(1.0)} / CAST(({equals}) AS {sql.double})"
    first = " ".join(f"WHEN {each} THEN {action}" for action, each in won.items())
    stages.add("picked", [*kept, (f"CASE {first} END", "best")])
    won.update({action: f"best = {action}" for action in won})
    return sql.number(1.0)


# ----------------------------------------------------------------------
# The stages of a decision: draws, scores, probabilities, actions.
#
# Each stage does the same arithmetic as `decide_by`, in the same order and with flat sums. A
# database that follows IEEE 754 gets the same bits.


class DecisionStages:
    """The stages that decide for the units of one table.

    Parameters
    ----------
    now, rule
        The campaign's situation and the open wave's rule.
    sql
        The dialect.
    units
        The table of units.
    entry
        Which units of the table enter the wave; None for all. With it, the columns that the model
        reads are passed on to the last stage.
    """

    def __init__(
        self, now: Situation, rule: Rule, sql: SqlDialect, units: str, entry: WaveEntry | None
    ) -> None:
        self._now, self._rule, self._sql = now, rule, sql
        self._K = len(now.active)
        encoder = now.encoder(wave=now.wave)
        self.columns: SqlColumns = columns_of(encoder, sql)
        self._allowed = allowed_of(encoder, sql)
        self._entry = entry
        self._kept = list(entry.table.stored) if entry else []
        self.ids = [f"u{place}" for place in range(len(now.spec.unit))]
        self.stages = Stages(sql)
        self._given(units)
        self._drawn()
        self._scored()
        self._weighed()
        self._decided()

    def _each(self, prefix: str) -> list[str]:
        return [f"{prefix}{action}" for action in range(self._K)]

    def _given(self, units: str) -> None:
        """Read the columns, and compute each unit's md5."""
        sql, spec, columns = self._sql, self._now.spec, self.columns
        ids = [
            (sql.as_text(sql.name_of(name)), alias)
            for name, alias in zip(spec.unit, self.ids, strict=True)
        ]
        read, asked = list(columns.read), list[Item]()
        if self._allowed:
            read, asked = [*read, *self._allowed.read], self._allowed.asked
        self.stages.add("given", [*ids, *read], source=sql.table(units))
        if self._entry:
            self._entry.add(self.stages, self.ids, [alias for _, alias in read])
        key = sql.text(md5_key(spec.seed, spec.name))
        own = [*named(*(alias for _, alias in read)), *columns.levels, *asked]
        joined = id_of(sql, self.ids)
        known = [(joined, "id"), (sql.md5(f"{key} || {joined}"), "digest")]
        self.stages.add("known", [*named(*self.ids), *known, *own])

    def _drawn(self) -> None:
        """Compute draws from the md5, numbers from the columns, and each unit's first problem."""
        sql, columns = self._sql, self.columns
        draws = draws_in(sql, "digest")
        missing = [
            (f"{alias} IS NULL OR {alias} = ''", briefly(name, MISSING))
            for alias, name in zip(self.ids, self._now.spec.unit, strict=True)
        ]
        more = self._allowed.problems if self._allowed else []
        cases = " ".join(
            f"WHEN {condition} THEN {sql.text(why)}"
            for condition, why in (*missing, *columns.problems, *more)
        )
        problem = (f"CASE {cases} END", "problem")
        settled = self._allowed.settled if self._allowed else []
        base = named(*self.ids, "id")
        kept = named(*self._kept)
        self.stages.add("drawn", [*base, problem, *draws, *settled, *kept, *columns.base])
        if columns.crossed:
            own = [alias for _, alias in columns.base]
            self.stages.add("crossed", [*self._passed(), *named(*own), *columns.crossed])

    def _passed(self) -> list[Item]:
        """Return the columns that every stage after the draws passes on."""
        allowed = self._allowed.names if self._allowed else []
        return named(*self.ids, "id", "problem", *DRAWS, *allowed, *self._kept)

    def _scored(self) -> None:
        """Score every action."""
        sql, rule, vector = self._sql, self._rule, self.columns.vector
        kept = self._passed()
        means = [(total(sql, vector, rule.theta[a]), f"s{a}") for a in range(self._K)]
        if rule.root is None:
            self.stages.add("scored", [*kept, *means])
            return
        # The width is the norm of root times x: first the product, then its squares.
        parts = [
            (total(sql, vector[: row + 1], rule.root[a, row, : row + 1]), f"w{a}_{row}")
            for a in range(self._K)
            for row in range(len(vector))
        ]
        means = [(text, f"m{a}") for a, (text, _) in enumerate(means)]
        self.stages.add("rooted", [*kept, *means, *parts])
        scores = []
        for a in range(self._K):
            squares = [f"w{a}_{row} * w{a}_{row}" for row in range(len(vector))]
            width = f"SQRT({summed([sql.number(0.0), *squares])})"
            scores.append((f"m{a} + {sql.number(rule.gamma)} * {width}", f"s{a}"))
        self.stages.add("scored", [*kept, *scores])

    def _weighed(self) -> None:
        """Compute every action's probability for units that are not randomised."""
        sql, K, floor = self._sql, self._K, self._now.floor
        kept = [*self._passed(), *named(*self._each("s"))]
        asked = (self.stages, sql, self._rule, kept, K)
        # The K floors are subtracted first, with the same order of operations as in Python.
        rest = 1 - K * floor
        if self._allowed:
            mixed = [
                f"{sql.number(K * floor)} * {even(action)} + {sql.number(rest)} * {p}"
                for action, p in enumerate(chances_of_allowed(*asked))
            ]
        else:
            mixed = [
                f"{sql.number(floor)} + {sql.number(rest)} * {p}"
                if isinstance(p, str)
                else sql.number(floor + rest * p)
                for p in chances_of_all(*asked)
            ]
        self.stages.add("weighed", [*kept, *zip(mixed, self._each("q"), strict=True)])

    def _decided(self) -> None:
        """Choose actions by the draws, and log every action's probability."""
        sql, K, now = self._sql, self._K, self._now
        share, mixed = now.randomised, self._each("q")
        kept = [*self._passed(), *named(*self._each("s"))]
        shares = [(summed(mixed[: action + 1]), f"t{action}") for action in range(K)]
        blind = [
            f"{sql.number(share)} * {even(action)}" if self._allowed else sql.number(share / K)
            for action in range(K)
        ]
        logged = [
            (f"{blind[action]} + {sql.number(1 - share)} * {each}", f"p{action}")
            for action, each in enumerate(mixed)
        ]
        last = " ".join(f"WHEN q{action} > 0 THEN {action}" for action in reversed(range(K)))
        more = [*shares, *logged, (f"CASE {last} END", "last_possible")]
        self.stages.add("shared", [*kept, *more, *self._wanted()])
        passed = " + ".join(
            f"CASE WHEN draw_choice * t{K - 1} >= t{action} THEN 1 ELSE 0 END"
            for action in range(K)
        )
        randomised = f"draw_randomised < {sql.number(share)}"
        chosen = (
            f"CASE WHEN {randomised} THEN {self._blind()} ELSE LEAST({passed}, last_possible) END"
        )
        # A unit with a problem gets no action.
        action = f"CASE WHEN problem IS NULL THEN {chosen} END"
        self.stages.add(
            "decided",
            [
                *named(*self.ids, "id", "problem", *self._kept, *self._each("s"), *self._each("p")),
                (f"CASE WHEN {randomised} THEN 1 ELSE 0 END", "randomised"),
                (action, "chosen"),
                (self._group(), "part"),
            ],
        )

    def _wanted(self) -> list[Item]:
        """Return the rank, among a unit's eligible actions, of the one it would get at random."""
        if not self._allowed:
            return []
        place = self._sql.floor(f"draw_choice * {COUNT}")
        return [(f"LEAST({place}, {COUNT} - 1)", "wanted")]

    def _blind(self) -> str:
        """Return the action that a unit would get at random."""
        sql, K = self._sql, self._K
        if not self._allowed:
            return f"LEAST({sql.floor(f'draw_choice * {sql.number(float(K))}')}, {K - 1})"
        counts = [" + ".join(f"a{each}" for each in range(action + 1)) for action in range(K)]
        # The first action at which the running count of eligible actions exceeds the wanted rank.
        cases = " ".join(
            f"WHEN {each} > wanted THEN {action}" for action, each in enumerate(counts)
        )
        return f"CASE {cases} END"

    def _group(self) -> str:
        """Return the part of the evidence that a unit's outcome enters."""
        sql = self._sql
        intervals = self._rule.intervals
        if intervals is None:
            return "0"
        if intervals.pieces == 0:
            return "-1"
        size, (low, high) = intervals.size, intervals.used
        whole = sql.number(float(size))
        place = f"LEAST({sql.floor(f'draw_place * {whole}')}, {size - 1})"
        ends = f"CAST((({place} + 1) * {intervals.pieces} - 1) AS {sql.double})"
        interval = f"({sql.floor(f'{ends} / {whole}')} + {intervals.first})"
        return f"CASE WHEN {interval} >= {low} AND {interval} < {high} THEN {interval} ELSE -1 END"
