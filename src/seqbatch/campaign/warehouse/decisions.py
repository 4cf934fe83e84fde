"""Decisions as SQL: draws, scores, probabilities and actions, stage by stage."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqbatch.campaign.decide.draws import DIGITS, md5_key
from seqbatch.campaign.features.categorical import HashedFeature
from seqbatch.campaign.files.columns import MISSING
from seqbatch.campaign.files.ids import BAR
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.spec.formats import ISO
from seqbatch.campaign.warehouse.dialects import SqlDialect
from seqbatch.campaign.warehouse.features import (
    COUNT,
    Item,
    SqlColumns,
    allowed_of,
    briefly,
    columns_of,
)
from seqbatch.core import Contexts
from seqbatch.core.arrays import Floats
from seqbatch.errors import CampaignStateError
from seqbatch.policies.base import BasePolicy, GreedyPolicy, LinearPolicy, Ranking
from seqbatch.policies.bpe import BPE
from seqbatch.policies.sbucb import SBUCB

# ----------------------------------------------------------------------
# One statement out of stages, each a query over the one before.


class Stages:
    """The stages of a statement, in order."""

    def __init__(self, sql: SqlDialect) -> None:
        self._sql = sql
        self._made: list[tuple[str, str]] = []

    @property
    def last(self) -> str:
        """The name of the newest stage."""
        return self._made[-1][0]

    def add(self, name: str, items: Sequence[Item], *, source: str = "", after: str = "") -> None:
        """Add a stage.

        Parameters
        ----------
        name
            What later stages call it.
        items
            Expressions and their names.
        source
            What it reads, the stage before where empty.
        after
            What stands after the source: joins, conditions, groups.
        """
        text = self._selected(items, source or self.last, after)
        fence = f"\n{self._sql.fence}" if self._sql.fence else ""
        self._made.append((name, text + fence))

    def statement(self, items: Sequence[Item], *, after: str = "") -> str:
        """Return the statement that selects these of the last stage."""
        stages = ",\n".join(f"{name} AS (\n{_indented(text)}\n)" for name, text in self._made)
        return f"WITH\n{stages}\n{self._selected(items, self.last, after)}\n"

    def _selected(self, items: Sequence[Item], source: str, after: str) -> str:
        """Return one query, refusing one of more columns than the database takes."""
        if len(items) > self._sql.columns:
            raise CampaignStateError(
                f"the statement would have a stage of {len(items):,} columns, and {self._sql.name} "
                f"takes at most {self._sql.columns:,}. Use fewer features, or assign, record and "
                "close.",
                code="not-in-sql",
            )
        lines = [name if text == name else f"{text} AS {name}" for text, name in items]
        parts = ["SELECT\n" + ",\n".join(f"  {line}" for line in lines), f"FROM {source}"]
        return "\n".join([*parts, after] if after else parts)


def named(*names: str) -> list[Item]:
    """Return columns that are passed on as they are."""
    return [(name, name) for name in names]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


# ----------------------------------------------------------------------
# The rule by which the open wave decides, as numbers: what a statement is made of.


#: Policies whose rule can be written in SQL.
POLICIES = ("SBPE", "RBGL", "LBGL", "BPE", "SBUCB", "UniformRandom", "FixedAction")


@dataclass(frozen=True)
class WaveRule:
    """How the open wave decides.

    Parameters
    ----------
    theta
        The parameters that score each action, shape (K, dim).
    root, gamma
        The roots of SBUCB's widths, shape (K, dim, dim), and their multiplier; None and 0 where
        scores are means alone.
    constant
        The policy's probability of each action where it is the same for every unit that may get all
        of them; None where the action of highest score is chosen.
    candidates
        The actions that the choice is among.
    random_ties
        Whether equal scores share the probability, or the lowest action has it.
    intervals
        Into how many intervals a wave is cut whose outcomes enter parts of the evidence of their
        own (BPE), and the number of the first; None where all enter one.
    """

    theta: Floats
    root: Floats | None
    gamma: float
    constant: tuple[float, ...] | None
    candidates: tuple[int, ...]
    random_ties: bool
    intervals: tuple[int, int] | None


def rule_of(now: Situation, state: Any) -> WaveRule:
    """Return the rule of the open wave; refuse what SQL cannot say, with the reason."""
    require_expressible(now)
    policy, problem = now.made_policy(), state.problem
    chosen, constant = _choice(policy, state)
    ucb = isinstance(policy, SBUCB)
    intervals = None
    if isinstance(policy, BPE):
        even = policy.split == "even"
        pieces = problem.batches if even else problem.batches - state.batch
        intervals = (pieces, 0 if even else state.batch - 1)
    return WaveRule(
        theta=state.estimates[0].theta,
        root=state.estimates[0].root if ucb else None,
        gamma=policy.multiplier(problem) if isinstance(policy, SBUCB) else 0.0,
        constant=constant,
        candidates=chosen,
        random_ties=isinstance(policy, LinearPolicy) and policy.ties == "random",
        intervals=intervals,
    )


def _choice(policy: BasePolicy, state: Any) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """Return the actions that the choice is among, and their probabilities where constant.

    Nobody is asked about a unit: where everybody may get everything, what a policy says without
    looking at scores is the same for all. One unit, of zeros, stands for them.
    """
    K = state.problem.actions
    contexts = Contexts(np.zeros((1, state.problem.dim)), state.problem)
    ranking = Ranking(scores=np.zeros((1, K)), means=np.zeros((1, K)))
    among = policy.candidates(state, contexts, ranking)
    everything = tuple(range(K)) if among is None else tuple(np.flatnonzero(among[0]).tolist())
    blind = not isinstance(policy, LinearPolicy) or (
        state.batch == 1 and (policy.first == "uniform" or isinstance(policy, BPE))
    )
    lost = among is not None and isinstance(policy, GreedyPolicy)
    lost = lost and not policy.known(state)[list(everything)].any()
    if not (blind or lost):
        return everything, None
    _, said = policy.choose(state, contexts, ranking, np.zeros(1))
    return everything, tuple(said[0].tolist())


def require_expressible(now: Situation) -> None:
    """Refuse campaigns whose decisions no statement can make."""
    now.require_open()
    if found := inexpressible(now):
        raise CampaignStateError(
            f"campaign {now.name} cannot be written as SQL: {'; '.join(found)}. Use assign, record "
            "and close.",
            code="not-in-sql",
        )


def inexpressible(now: Situation) -> list[str]:
    """Return what SQL cannot say of a campaign's decisions."""
    spec, parts = now.spec, now.encoder(wave=now.wave).parts
    hashed = [name for name, part in parts.items() if isinstance(part, HashedFeature)]
    dates = [name for name, rules in spec.features.date.items() if rules.format != ISO]
    spelled = [name for name, rules in spec.features.numeric.items() if rules.format]
    reasons = {
        'draws are not by md5, which databases have (declare draws = "md5")': spec.draws != "md5",
        "units are drawn together (a balanced draw, strata, capacities or a budget)": spec.balanced,
        'the actions share one model (model = "shared")': spec.model == "shared",
        "it is masked, and a statement shows every score": now.masked,
        f"the policy is {now.policy['kind']}, not one of {', '.join(POLICIES)}": (
            now.policy["kind"] not in POLICIES
        ),
        f"categories are hashed by blake2 ({', '.join(hashed)})": bool(hashed),
        f"dates are spelled by a format ({', '.join(dates)})": bool(dates),
        f"numbers are spelled by a format ({', '.join(spelled)})": bool(spelled),
    }
    return [reason for reason, there in reasons.items() if there]


# ----------------------------------------------------------------------
# The policy's probability of each action, as SQL: the same for all, or by the highest score.


#: The score of what a unit may not get: below any that a model gives.
LOWEST = -sys.float_info.max


def even(action: int) -> str:
    """Return the probability of an action where all that a unit may get have the same."""
    return f"(a{action} / {COUNT})"


def chances_of_all(
    stages: Stages, sql: SqlDialect, rule: WaveRule, kept: Sequence[Item], options: int
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
    stages: Stages, sql: SqlDialect, rule: WaveRule, kept: Sequence[Item], options: int
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
    stages: Stages, sql: SqlDialect, rule: WaveRule, kept: Sequence[Item], won: dict[int, str]
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


# ----------------------------------------------------------------------
# The stages that decide: draws, scores, probabilities, actions.
#
# Each is the arithmetic of `decide` in the same order, with flat sums, so that any database that
# adds and multiplies as IEEE 754 says gets the same bits.


#: Cells of categories and booleans that a wave may be summed up by before it is summed up in all.
MOST_CELLS = 4_096
#: The three draws of a unit.
DRAWS = ("draw_randomised", "draw_choice", "draw_place")


class DecisionStages:
    """The stages up to the decisions of the units of one table.

    Parameters
    ----------
    now, rule
        Where the campaign stands, and the open wave's rule.
    sql
        The dialect.
    units
        The table of units.
    keep
        Whether the numbers of the model are passed on to the last stage: all of them, or the
        columns that make up cells instead of those that these determine.
    """

    def __init__(
        self, now: Situation, rule: WaveRule, sql: SqlDialect, units: str, *, keep: bool
    ) -> None:
        self._now, self._rule, self._sql = now, rule, sql
        self._K = len(now.active)
        encoder = now.encoder(wave=now.wave)
        self.columns: SqlColumns = columns_of(encoder, sql)
        self._allowed = allowed_of(encoder, sql)
        self.by_cells = keep and len(self.columns.keys) > 0 and self.columns.cells <= MOST_CELLS
        self.kept = self.columns.vector if keep else []
        if self.by_cells:
            moving = [name for name in self.kept if name not in self.columns.steady]
            self.kept = [*self.columns.keys, *moving]
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
        """Read the columns, and find each unit's md5."""
        sql, spec, columns = self._sql, self._now.spec, self.columns
        ids = [
            (sql.as_text(sql.name_of(name)), alias)
            for name, alias in zip(spec.unit, self.ids, strict=True)
        ]
        read, asked = list(columns.read), list[Item]()
        if self._allowed:
            read, asked = [*read, *self._allowed.read], self._allowed.asked
        self.stages.add("given", [*ids, *read], source=sql.table(units))
        key = sql.text(md5_key(spec.seed, spec.name))
        own = [*named(*(alias for _, alias in read)), *columns.levels, *asked]
        joined = id_of(sql, self.ids)
        known = [(joined, "id"), (sql.md5(f"{key} || {joined}"), "digest")]
        self.stages.add("known", [*named(*self.ids), *known, *own])

    def _drawn(self) -> None:
        """Make draws of the md5, and numbers of the columns; say what is wrong with a unit."""
        sql, columns = self._sql, self.columns
        draws = []
        for name, (start, stop) in zip(DRAWS, DIGITS, strict=True):
            size = sql.number(0.5 ** (4 * (stop - start)))
            whole = sql.digits("digest", start, stop)
            draws.append((f"CAST({whole} AS {sql.double}) * {size}", name))
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
        keys = named(*columns.keys) if self.by_cells else []
        self.stages.add("drawn", [*base, problem, *draws, *settled, *keys, *columns.base])
        if columns.crossed:
            own = [alias for _, alias in columns.base]
            self.stages.add("crossed", [*self._passed(), *keys, *named(*own), *columns.crossed])

    def _passed(self) -> list[Item]:
        """Return what every stage from the draws on passes on."""
        allowed = self._allowed.names if self._allowed else []
        return named(*self.ids, "id", "problem", *DRAWS, *allowed)

    def _scored(self) -> None:
        """Score every action."""
        sql, rule, vector = self._sql, self._rule, self.columns.vector
        kept = [*self._passed(), *named(*self.kept)]
        means = [(total(sql, vector, rule.theta[a]), f"s{a}") for a in range(self._K)]
        if rule.root is None:
            self.stages.add("scored", [*kept, *means])
            return
        # The width is the length of root times x: first its parts, then their squares.
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
        """Give every action its probability among units that are not randomised."""
        sql, K, floor = self._sql, self._K, self._now.floor
        kept = [*self._passed(), *named(*self.kept, *self._each("s"))]
        asked = (self.stages, sql, self._rule, kept, K)
        # K floors are set aside first, as in Python, in the same order of operations.
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
        """Pick actions by the draws, and log the probability of each."""
        sql, K, now = self._sql, self._K, self._now
        share, mixed = now.randomised, self._each("q")
        kept = [*self._passed(), *named(*self.kept, *self._each("s"))]
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
        # Who is refused gets nothing.
        action = f"CASE WHEN problem IS NULL THEN {chosen} END"
        self.stages.add(
            "decided",
            [
                *named(*self.ids, "id", "problem", *self.kept, *self._each("s"), *self._each("p")),
                (f"CASE WHEN {randomised} THEN 1 ELSE 0 END", "randomised"),
                (action, "chosen"),
                (self._group(), "part"),
            ],
        )

    def _wanted(self) -> list[Item]:
        """Return which of its actions, in their order, a unit would get at random."""
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
        # The first by which more than those wanted have been passed.
        cases = " ".join(
            f"WHEN {each} > wanted THEN {action}" for action, each in enumerate(counts)
        )
        return f"CASE {cases} END"

    def _group(self) -> str:
        """Return the part of the evidence that a unit's outcome enters."""
        sql, now = self._sql, self._now
        if self._rule.intervals is None:
            return "0"
        pieces, first = self._rule.intervals
        if pieces == 0:
            return "-1"
        size, waves = now.problem().size(now.wave), len(now.sizes)
        whole = sql.number(float(size))
        place = f"LEAST({sql.floor(f'draw_place * {whole}')}, {size - 1})"
        ends = f"CAST((({place} + 1) * {pieces} - 1) AS {sql.double})"
        interval = f"({sql.floor(f'{ends} / {whole}')} + {first})"
        return (
            f"CASE WHEN {interval} >= {now.wave - 1} AND {interval} < {waves - 1} "
            f"THEN {interval} ELSE -1 END"
        )


def id_of(sql: SqlDialect, columns: Sequence[str]) -> str:
    """Return the id that some columns of text are joined into."""
    if len(columns) == 1:
        return columns[0]
    back, bar = sql.text("\\"), sql.text(BAR)
    marked = [
        f"REPLACE(REPLACE({column}, {back}, {sql.text(chr(92) * 2)}), "
        f"{bar}, {sql.text(chr(92) + BAR)})"
        for column in columns
    ]
    return f" || {bar} || ".join(marked)


def total(sql: SqlDialect, vector: Sequence[str], weights: Floats) -> str:
    """Return the product of two vectors, term by term; a weight of 0 changes no bit."""
    terms = [
        f"{name} * {sql.number(weight)}"
        for name, weight in zip(vector, weights.tolist(), strict=True)
        if weight != 0
    ]
    return summed([sql.number(0.0), *terms])


def summed(terms: Sequence[str]) -> str:
    """Return a sum without brackets: databases take it from left to right."""
    return "\n  + ".join(terms) if len(terms) > 4 else " + ".join(terms)
