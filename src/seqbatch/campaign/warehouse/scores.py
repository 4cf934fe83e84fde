"""Scores of closed waves in a database: the scoring of inference as SQL, and its sums.

The models are fitted here, and their numbers stand in the statement. The database scores each unit
with them; only sums over units come back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from seqbatch.campaign.warehouse.closed_wave import Group, UnitStages
from seqbatch.campaign.warehouse.dialects import SqlDialect
from seqbatch.campaign.warehouse.features import Item
from seqbatch.campaign.warehouse.stages import named, summed
from seqbatch.core.arrays import Floats, Integers
from seqbatch.inference.contrasts import (
    ROUNDING,
    AsRun,
    Contrast,
    Gain,
    GainOverRandom,
    Lift,
    Mean,
)
from seqbatch.inference.return_model import LEAST, SCARCE
from seqbatch.inference.rule_value import (
    FOLDS,
    LEAST_PROBABILITY,
    GreedyRule,
    JudgedRule,
    RuleJudge,
)
from seqbatch.inference.score_sums import JointMoments, Moments, ResidualSums, ScoreSums
from seqbatch.inference.summary import Fitted, of_segments

# ----------------------------------------------------------------------
# The sums of a statement, by their place; equal ones are computed once.


class Sums:
    """The sums that a statement computes, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._places: dict[str, int] = {}

    def of(self, term: str) -> int:
        """Return the place of the sum of an expression."""
        if term not in self._places:
            self._places[term] = len(self.texts)
            self.texts.append(f"SUM({term})")
        return self._places[term]

    def powers(self, column: str, centre: str = "") -> tuple[int, ...]:
        """Return the places of the sums of four powers of a column, counted from a centre."""
        own = f"({column} - {centre})" if centre else column
        return tuple(self.of(" * ".join([own] * power)) for power in range(1, 5))


@dataclass(frozen=True)
class Terms:
    """A contrast as SQL: for each part, the coefficient of each action; "" for 1."""

    more: dict[int, str]
    less: dict[int, str]


def terms_of(contrast: Contrast, actions: int) -> Terms:
    """Return the coefficients of a contrast that does not depend on a rule."""
    match contrast:
        case Mean(action):
            return Terms({action: ""}, {})
        case Lift(action, over):
            return Terms({action: ""}, {over: ""})
        case AsRun():
            return Terms({a: f"pr{a}" for a in range(actions)}, {})
        case Gain(over):
            others = {a: f"pr{a}" for a in range(actions) if a != over}
            return Terms(others, {over: f"rest{over}"})
        case GainOverRandom():
            name = _random(contrast, actions)
            return Terms(
                {a: f"above{name}_{a}" for a in range(actions)},
                {a: f"below{name}_{a}" for a in range(actions)},
            )
    raise TypeError(contrast)


def _random(contrast: GainOverRandom, actions: int) -> str:
    """Return what tells the columns of one random assignment from those of another."""
    return "_".join(map(str, _among(contrast, actions)))


def _among(contrast: GainOverRandom, actions: int) -> tuple[int, ...]:
    return tuple(range(actions)) if contrast.among is None else contrast.among


def rule_terms(over: int, actions: int) -> Terms:
    """Return the coefficients of the rule to run next over one action."""
    wanted = {a: f"wanted{over}_{a}" for a in range(actions) if a != over}
    return Terms(wanted, {over: f"instead{over}"})


# ----------------------------------------------------------------------
# The places of a contrast's sums.


@dataclass(frozen=True)
class ScorePlaces:
    """Where the sums of a contrast are.

    Parameters
    ----------
    scores, more, less
        The sums of the powers of scores, and of both parts; empty if a part is always 0.
    centre
        From which scores are counted; parts are counted from 0.
    design
        The sums of d, d^2/(p q) and d^3/(p q)^2 by part and action; -1 for 0.
    cost, units
        The sums of costs, and of units; -1 if all units count.
    """

    scores: tuple[int, ...]
    more: tuple[int, ...]
    less: tuple[int, ...]
    centre: float
    design: Integers
    cost: int
    units: int = -1


def tally(places: Sequence[ScorePlaces], groups: Sequence[Group]) -> ScoreSums:
    """Return the sums over some groups, one column for each contrast."""
    total = np.sum([one.sums for one in groups], axis=0)
    units = _count(places[0], groups)
    scores = [_moments(units, total, one.scores, one.centre) for one in places]
    parts = [_moments(units, total, own, 0.0) for one in places for own in (one.more, one.less)]
    design = np.array([one.design for one in places])
    return ScoreSums(
        _count(places[0], [one for one in groups if one.seen]),
        Moments(units, *np.transpose(scores)),
        Moments(units, *np.transpose(parts)),
        np.where(design < 0, 0.0, total[design]),
        np.array([total[one.cost] for one in places]),
    )


def _count(place: ScorePlaces, groups: Sequence[Group]) -> int:
    if place.units < 0:
        return sum(one.units for one in groups)
    return int(sum(one.sums[place.units] for one in groups))


def _moments(units: int, total: Floats, places: Sequence[int], centre: float) -> Floats:
    """Return mean and central sums from sums of powers, counted from a centre near the mean."""
    if not places or not units:
        return np.zeros(4)
    first, second, third, fourth = total[list(places)]
    away = first / units
    return np.array([
        centre + away,
        second - units * away**2,
        third - 3 * away * second + 2 * units * away**3,
        fourth - 4 * away * third + 6 * away**2 * second - 3 * units * away**4,
    ])  # fmt: skip


# ----------------------------------------------------------------------
# The statement of one wave and one metric.


@dataclass
class ScoreStatement:
    """Scores of a wave's units, and their sums.

    Parameters
    ----------
    units
        The stages that read the units.
    fitted
        What scores them.
    turn
        What standardises the model's numbers.
    contrasts
        The contrasts.
    judges
        What judges the rule to run next on each fold; none if it is not judged here.
    """

    units: UnitStages
    fitted: Fitted
    turn: Floats
    contrasts: Sequence[Contrast]
    judges: Sequence[RuleJudge] = ()
    sums: Sums = field(init=False, default_factory=Sums)

    def __post_init__(self) -> None:
        every, K = range(self.actions), self.actions
        centre = self._centre
        #: The place of each contrast's sums, and of those of the rule over each action.
        self.places = [
            self._contrast(contrast, terms_of(contrast, K), f"c{at}", centre)
            for at, contrast in enumerate(self.contrasts)
        ]
        about = self.sql.number(centre)
        self.joint = np.array([
            [self.sums.of(f"(score{a} - {about}) * (score{b} - {about})") for b in every]
            for a in every
        ])  # fmt: skip
        self.means = [self.sums.of(f"(score{a} - {about})") for a in every]
        self.residuals = (
            self.sums.of("residual * residual"),
            self.sums.of("residual * residual * residual * residual"),
        )
        scarce = self.sql.number(SCARCE)
        self.scarce = self.sums.of(f"CASE WHEN back < {scarce} THEN 1 ELSE 0 END")
        self.given = [
            self.sums.of(f"CASE WHEN wanted = {a} THEN 1 ELSE 0 END")
            for a in (every if self.judges else ())
        ]
        self.over = [self._over(o) for o in (every if self.judges else ())]

    @property
    def sql(self) -> SqlDialect:
        """The dialect."""
        return self.units.tables.sql

    @property
    def actions(self) -> int:
        """The number of actions."""
        return len(self.fitted.evidence.zeros)

    @property
    def _centre(self) -> float:
        """The mean outcome: scores are counted from it, so that powers keep their digits."""
        moment = self.fitted.evidence.statistics.moment[:, 0]
        return float(moment.sum()) / max(self.fitted.evidence.outcomes, 1)

    def _contrast(self, contrast: Contrast, terms: Terms, name: str, centre: float) -> ScorePlaces:
        sql, sums = self.sql, self.sums
        # The coefficients of a mean or a value sum to 1, those of the others to 0.
        around = centre if isinstance(contrast, Mean | AsRun) else 0.0
        score = f"{name}_more - {name}_less" if terms.less else f"{name}_more"
        score = f"({score})" if terms.less else score
        return ScorePlaces(
            scores=sums.powers(score, sql.number(around) if around else ""),
            more=sums.powers(f"{name}_part_more" if self.fitted.usual else f"{name}_more"),
            less=sums.powers(f"{name}_part_less" if self.fitted.usual else f"{name}_less")
            if terms.less
            else (),
            centre=around,
            design=self._design(terms),
            cost=sums.of(self._cost(contrast)),
        )

    def _over(self, over: int) -> ScorePlaces:
        name, terms = f"r{over}", rule_terms(over, self.actions)
        cost = summed([
            f"CASE WHEN {d} = 1 THEN odds{a} ELSE 0 END"
            for own in (terms.more, terms.less)
            for a, d in own.items()
        ])  # fmt: skip
        usual = self.fitted.usual
        return ScorePlaces(
            scores=self.sums.powers(f"({name}_more - {name}_less)"),
            more=self.sums.powers(f"{name}_part_more" if usual else f"{name}_more"),
            less=self.sums.powers(f"{name}_part_less" if usual else f"{name}_less"),
            centre=0.0,
            design=self._design(terms),
            cost=self.sums.of(f"({cost})"),
            units=self.sums.of(f"supported{over}"),
        )

    def _design(self, terms: Terms) -> Integers:
        made = np.full((2, 3, self.actions), -1, dtype=np.int64)
        for part, own in enumerate((terms.more, terms.less)):
            for a, d in own.items():
                ratio = f"{d}_by{a}" if d else f"inverse{a}"
                one = d or "1"
                made[part, :, a] = [
                    self.sums.of(each)
                    for each in (one, f"{one} * {ratio}" if d else ratio,
                                 f"{one} * {ratio} * {ratio}" if d else f"{ratio} * {ratio}")
                ]  # fmt: skip
        return made

    def _cost(self, contrast: Contrast) -> str:
        match contrast:
            case Mean(action) | Gain(action):
                return f"odds{action}"
            case Lift(action, over):
                return f"(odds{action} + odds{over})"
            case GainOverRandom():
                among = _among(contrast, self.actions)
                if self.units.masks:
                    return self._cost_at_random(among)
                total = " + ".join(f"odds{a}" for a in among)
                return f"({total}) / {self.sql.number(len(among) ** 2)}"
        return "1"

    def _cost_at_random(self, among: Sequence[int]) -> str:
        """Return the cost of random assignment among the actions that a unit could get."""
        some = " + ".join(f"CASE WHEN a{a} = 1 THEN odds{a} ELSE 0 END" for a in among)
        count = self._could(among)
        mean = f"({some}) / {count} / {count}"
        return f"CASE WHEN {count} = 0 THEN {self._nan} ELSE {mean} END"

    # ------------------------------------------------------------------
    # The stages.

    def query(self, *, width: int) -> str:
        """Return the query of the wave's sums."""
        self._predicted()
        self._missed()
        self._scored()
        self._weighed()
        return self.units.selected(self.sums.texts, width=width)

    def _add(self, name: str, items: Sequence[Item], *, once: bool = False) -> None:
        self.units.stages.add(name, items, once=once)

    @property
    def _nan(self) -> str:
        """What stands for an action that a unit could not get, as in inference from rows."""
        return f"CAST('NaN' AS {self.sql.double})"

    def _among_eligible(self, text: str, action: int) -> str:
        """Return a value, or NaN if the unit could not get the action."""
        if not self.units.masks:
            return text
        return f"CASE WHEN a{action} = 1 THEN {text} ELSE {self._nan} END"

    def _could(self, among: Sequence[int]) -> str:
        """Return how many of some actions a unit could get."""
        return f"CAST(({' + '.join(f'a{a}' for a in among)}) AS {self.sql.double})"

    def _kept(self, *more: str) -> list[Item]:
        chances = [f"pr{a}" for a in range(self.actions)]
        return [*self.units.passed, *named(*chances, *more)]

    def _line(self, weights: Floats) -> str:
        """Return a linear function of the model's standardised columns."""
        own = (weights @ self.turn).tolist()
        pairs = zip(own, self.units.vector, strict=True)
        terms = [f"{self.sql.number(weight)} * {name}" for weight, name in pairs if weight]
        return summed([self.sql.number(0.0), *terms])

    def _square(self, matrix: Floats) -> str:
        """Return a quadratic form of the model's standardised columns."""
        own, v = self.turn.T @ matrix @ self.turn, self.units.vector
        terms = []
        for i, name in enumerate(v):
            inner = [f"{self.sql.number(own[i, i])} * {name}"]
            inner += [f"{self.sql.number(2 * own[i, j])} * {v[j]}" for j in range(i + 1, len(v))]
            terms.append(f"{name} * ({summed(inner)})")
        return summed(terms)

    def _of_place(self, texts: Sequence[str]) -> str:
        """Return the value for the action that a unit got."""
        cases = " ".join(f"WHEN {a} THEN {text}" for a, text in enumerate(texts))
        return f"CASE place {cases} END"

    def _of_fold(self, texts: Sequence[str]) -> str:
        """Return the value for the fold that a unit is in."""
        cases = " ".join(f"WHEN {fold} THEN {text}" for fold, text in enumerate(texts))
        return f"CASE fold {cases} END"

    def _predicted(self) -> None:
        """Add predictions, leverages, and the chances that outcomes come back."""
        fit, every = self.fitted, range(self.actions)
        judged = []
        if self.judges:
            judged = [
                *((self._of_fold([self._line(one.model.coefficients[a]) for one in self.judges]),
                   f"judge{a}") for a in every),
                *((self._of_fold([self._line(one.rule.coefficients[a]) for one in self.judges]),
                   f"rule{a}") for a in every),
                (self._of_fold([self.sql.number(one.shift) for one in self.judges]), "moved_by"),
            ]  # fmt: skip
        self._add("predicted", [
            *self._kept(),
            *((self._line(fit.model.coefficients[a]), f"mean{a}") for a in every),
            (self._of_place([self._square(fit.model.inverse[a]) for a in every]), "leverage"),
            *((self._chance(a), f"back{a}") for a in every),
            *judged,
        ])  # fmt: skip

    def _chance(self, action: int) -> str:
        """Return the probability that an outcome under an action comes back."""
        sql, returned = self.sql, self.fitted.returned
        if not returned.missing[action]:
            return sql.number(float(returned.shares[action]))
        z = self._line(returned.coefficients[action])
        # Beyond 700 the exponential overflows.
        far = f"GREATEST(LEAST(-({z}), {sql.number(700.0)}), {sql.number(-700.0)})"
        q = f"{sql.number(1.0)} / ({sql.number(1.0)} + EXP({far}))"
        return f"GREATEST({q}, {sql.number(LEAST)})"

    def _missed(self) -> None:
        """Add residuals, the unit's own chances, and the action that the rule wants."""
        every, judged = range(self.actions), list[Item]()
        if self.judges:
            judged = [
                (self._wanted(), "wanted"),
                *((f"judge{a} + moved_by", f"judge{a}") for a in every),
            ]
        own = [f"pr{a} * back{a}" for a in every]
        self._add("missed", [
            *self._kept(*(f"mean{a}" for a in every), *(f"back{a}" for a in every)),
            (f"y - {self._of_place([f'mean{a}' for a in every])}", "plain"),
            (f"{self.sql.number(1.0)} - leverage", "left_out"),
            (self._of_place(own), "chance"),
            (self._of_place([f"back{a}" for a in every]), "back"),
            *judged,
        ])  # fmt: skip

    def _wanted(self) -> str:
        """Return the action with the best prediction of the rule, the first among equals."""
        return self._of_fold([self._best(judge.rule) for judge in self.judges])

    def _best(self, rule: GreedyRule) -> str:
        """Return the action that a rule gives, among those that a unit could get."""
        sign, some = "<=" if rule.less else ">=", np.flatnonzero(rule.known).tolist() or [0]
        masked = bool(self.units.masks)
        # With eligibility, a unit that could get none of them counts as one of the first action.
        asked, last = (some, 0) if masked else (some[:-1], some[-1])
        cases = []
        for a in asked:
            beaten = [
                f"(a{b} = 0 OR rule{a} {sign} rule{b})" if masked else f"rule{a} {sign} rule{b}"
                for b in some
                if b != a
            ]
            met = " AND ".join([*([f"a{a} = 1"] if masked else []), *beaten])
            cases.append(f"WHEN {met} THEN {a}")
        return f"CASE {' '.join(cases)} ELSE {last} END" if cases else str(last)

    def _scored(self) -> None:
        """Add the scores, and what the contrasts weigh them with."""
        sql, every, shift = self.sql, range(self.actions), self.fitted.shift
        loo = "plain / left_out"
        moved = (
            f"({sql.number(shift.total)} - CASE WHEN seen = 1 THEN plain ELSE 0 END)"
            f" / ({sql.number(shift.outcomes + 1)} - seen)"
        )
        self._add("moved", [
            *self._kept(*(f"mean{a}" for a in every), *(f"back{a}" for a in every), "back",
                        "chance"),
            (loo, "alone"), (moved, "moved"),
            *(named("wanted", *(f"judge{a}" for a in every)) if self.judges else ()),
        ])  # fmt: skip
        infinite = f"CAST('Infinity' AS {sql.double})"
        one = sql.number(1.0)

        def inverse(chance: str, a: int) -> str:
            text = f"CASE WHEN pr{a} > 0 THEN {one} / ({chance}) ELSE {infinite} END"
            return self._among_eligible(text, a)

        mine = "CASE WHEN place = {a} AND seen = 1 THEN {own} ELSE {other} END"
        score = "y - alone + moved + (alone - moved) / chance"
        judged = "judge{a} + (y - judge{a}) / chance"
        self._add("scored", [
            *self._kept("back"),
            ("CASE WHEN seen = 1 THEN alone - moved END", "residual"),
            *((mine.format(a=a, own=score, other=f"mean{a} + moved"), f"score{a}") for a in every),
            *((inverse(f"pr{a} * back{a}", a), f"inverse{a}") for a in every),
            *((inverse(f"pr{a}", a), f"odds{a}") for a in every),
            *((self._among_eligible(f"{one} - pr{a}", a), f"rest{a}") for a in every),
            *self._gaps(),
            *(named("wanted") if self.judges else ()),
            *((mine.format(a=a, own=judged.format(a=a), other=f"judge{a}"), f"judged{a}")
              for a in (every if self.judges else ())),
            *((self._supported(o), f"supported{o}") for o in (every if self.judges else ())),
        ], once=True)  # fmt: skip

    def _gaps(self) -> list[Item]:
        """Return how far probabilities are above and below those of random assignments."""
        sql, made = self.sql, dict[str, Item]()
        for contrast in self.contrasts:
            if isinstance(contrast, GainOverRandom):
                among, name = _among(contrast, self.actions), _random(contrast, self.actions)
                for a in range(self.actions):
                    gap = f"pr{a} - {self._at_random(a, among)}"
                    for side, text in (("above", gap), ("below", f"-({gap})")):
                        own = f"CASE WHEN {text} >= {sql.number(ROUNDING)} THEN {text} ELSE 0 END"
                        made[f"{side}{name}_{a}"] = (own, f"{side}{name}_{a}")
        return list(made.values())

    def _at_random(self, action: int, among: tuple[int, ...]) -> str:
        """Return the probability of an action if a unit gets one of those that it could get."""
        if action not in among or not self.units.masks:
            return self.sql.number(1 / len(among) if action in among else 0.0)
        return (
            f"CASE WHEN a{action} = 1 THEN {self.sql.number(1.0)} / {self._could(among)} ELSE 0 END"
        )

    def _supported(self, over: int) -> str:
        """Return whether a unit could have got the rule's action and the other one."""
        least = self.sql.number(LEAST_PROBABILITY)
        own = " ".join(f"WHEN {a} THEN pr{a}" for a in range(self.actions))
        both = f"CASE wanted {own} END >= {least} AND pr{over} >= {least}"
        same = f"wanted = {over} AND pr{over} > 0"
        return f"CASE WHEN {both} OR {same} THEN 1 ELSE 0 END"

    def _weighed(self) -> None:
        """Add both parts of every contrast, and what its design sums."""
        every = range(self.actions)
        rules = [(f"r{o}", rule_terms(o, self.actions)) for o in (every if self.judges else ())]
        plain = [
            (f"c{at}", terms_of(contrast, self.actions))
            for at, contrast in enumerate(self.contrasts)
        ]
        wanted: list[Item] = []
        for o in every if self.judges else ():
            wanted += [
                (f"CASE WHEN supported{o} = 1 AND wanted = {a} THEN 1 ELSE 0 END", f"wanted{o}_{a}")
                for a in every if a != o
            ]  # fmt: skip
            differs = f"supported{o} = 1 AND wanted <> {o}"
            wanted.append((f"CASE WHEN {differs} THEN 1 ELSE 0 END", f"instead{o}"))
        coefficients = list(dict.fromkeys(
            (a, d) for _, terms in (*plain, *rules) for own in (terms.more, terms.less)
            for a, d in own.items() if d
        ))  # fmt: skip
        passed = [f"{name}{a}" for a in every for name in ("score", "inverse", "odds", "rest")]
        passed += [name for _, name in self._gaps()]
        if self.judges:
            passed += ["wanted", *(f"judged{a}" for a in every), *(f"supported{o}" for o in every)]
        own = [(self._among_eligible(f"score{a}", a), f"own{a}") for a in every]
        self._add("weighted", [*self._kept("back", "residual", *passed), *own, *wanted])
        passed += [name for _, name in (*own, *wanted)]
        ratios = [
            (f"CASE WHEN {d} = 0 THEN 0 ELSE {d} * inverse{a} END", f"{d}_by{a}")
            for a, d in coefficients
        ]
        parts = [
            *(item for name, terms in plain for item in self._parts(name, terms, "own")),
            *(item for name, terms in rules for item in self._parts(name, terms, "judged")),
        ]
        self._add("summed", [*self._kept("back", "residual", *passed), *ratios, *parts])

    def _parts(self, name: str, terms: Terms, scores: str) -> list[Item]:
        """Return both parts of a contrast; also counted from 1, if that is the usual outcome."""
        made = []
        for side, own in (("more", terms.more), ("less", terms.less)):
            if not own:
                continue
            products = [
                (f"CASE WHEN {d} = 0 THEN 0 ELSE {d} * {scores}{a} END" if d else f"{scores}{a}")
                for a, d in own.items()
            ]
            made.append((summed(products), f"{name}_{side}"))
            if self.fitted.usual:
                whole = " + ".join(d or "1" for d in own.values())
                made.append((f"{whole} - ({summed(products)})", f"{name}_part_{side}"))
        return made

    # ------------------------------------------------------------------
    # The result.

    @property
    def of_segments(self) -> list[ScorePlaces]:
        """The places of the contrasts that are also summed within segments."""
        some = of_segments(self.contrasts)
        pairs = zip(self.contrasts, self.places, strict=True)
        return [place for contrast, place in pairs if contrast in some]

    def noise(self, groups: Sequence[Group], before: ResidualSums) -> ResidualSums:
        """Return the sums of residuals, added to those of earlier waves."""
        counts, squares, fourths = (before.counts.copy(), before.squares.copy(),
                                    before.fourths.copy())  # fmt: skip
        for one in groups:
            if one.seen:
                counts[one.action] += one.units
                squares[one.action] += one.sums[self.residuals[0]]
                fourths[one.action] += one.sums[self.residuals[1]]
        return ResidualSums(counts, squares, fourths)

    def joint_moments(self, groups: Sequence[Group]) -> JointMoments:
        """Return means and covariances of the scores of all actions."""
        total = np.sum([one.sums for one in groups], axis=0)
        units = sum(one.units for one in groups)
        away = total[self.means] / units
        products = total[self.joint] - units * np.outer(away, away)
        return JointMoments(units, self._centre + away, products)

    def scarce_units(self, groups: Sequence[Group]) -> Integers:
        """Return how many units of each action are of a kind whose outcomes hardly come back."""
        made = np.zeros(self.actions, dtype=np.int64)
        for one in groups:
            made[one.action] += int(one.sums[self.scarce])
        return made

    def judged(self, groups: Sequence[Group], over: int) -> list[JudgedRule]:
        """Return the sums of the rule to run next over one action, by fold."""
        made = []
        for fold in range(FOLDS):
            own = [one for one in groups if one.fold == fold]
            if own:
                total = reduce(np.add, (one.sums for one in own))
                given = total[self.given].astype(np.int64)
                made.append(JudgedRule(tally([self.over[over]], own), given))
        return made
