"""A campaign's waves for inference as sums over them, which a database computed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

import numpy as np

from seqbatch.campaign.decide.campaign_waves import CampaignWaves, ModelColumns
from seqbatch.campaign.decide.logged_waves import planned_waves
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.spec.objective import Reward
from seqbatch.campaign.warehouse.closed_wave import (
    ClosedWave,
    Group,
    Tables,
    UnitStages,
    of_division,
    of_wave,
)
from seqbatch.campaign.warehouse.dialects import DuckDB
from seqbatch.campaign.warehouse.evidence import Products, turn_of
from seqbatch.campaign.warehouse.returns import stepped
from seqbatch.campaign.warehouse.scores import ScoreStatement, tally
from seqbatch.core.arrays import Bools, Floats
from seqbatch.inference import NextRule, WaveSummary
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.evidence import Evidence
from seqbatch.inference.return_model import ReturnModel
from seqbatch.inference.rule_value import FOLDS, JudgedRule, RuleJudge, next_rule_of
from seqbatch.inference.score_sums import ResidualSums, ScoreSums
from seqbatch.inference.summary import (
    Declared,
    Eligible,
    Fitted,
    Partition,
    Segment,
    statistics_of,
)

#: What a database sums up for findings, in this order: each needs the ones before it.
Pass = Literal["evidence", "returns", "scores"]
PASSES: tuple[Pass, ...] = ("evidence", "returns", "scores")
#: The name of the objective among metrics.
OBJECTIVE = ""
#: The tables of a statement that is only read.
NO_TABLES = Tables(DuckDB(), "assignments", "outcomes")


@dataclass(eq=False)
class SummedWaves(CampaignWaves):
    """A campaign's waves as sums over them.

    Parameters
    ----------
    now, waves, at, waiting, segments, levels
        See :class:`~seqbatch.campaign.decide.campaign_waves.CampaignWaves`.
    closed
        The closed waves.
    events
        The campaign's events.
    groups
        The recorded sums of each pass.
    """

    now: Situation
    waves: tuple[int, ...]
    at: datetime
    closed: tuple[ClosedWave, ...]
    events: Sequence[Event]
    groups: Mapping[Pass, list[Group]]
    waiting: tuple[int, ...] = ()
    segments: tuple[str, ...] = ()
    levels: dict[str, dict[str, int]] = field(default_factory=dict)

    # ------------------------------------------------------------------
    # Models, from the sums of the first passes.

    @property
    def wide(self) -> int:
        """How many numbers a statement multiplies: the model's, and a constant."""
        return len(self.now.encoder().names) + (not self.now.spec.features.intercept)

    def _products(self, wave: int, metric: str, fold: int | None = None) -> Products:
        groups = of_wave(self.groups["evidence"], wave, metric)
        some = [one for one in groups if fold is None or one.fold == fold]
        return Products.of(some, actions=len(self.order), wide=self.wide)

    @cached_property
    def columns(self) -> ModelColumns:
        """The model's columns, standardised with the first wave."""
        return self._products(self.waves[0], OBJECTIVE).columns(self.now.encoder())

    @cached_property
    def turn(self) -> Floats:
        """What standardises the model's numbers."""
        return turn_of(self.columns, self.wide, len(self.now.encoder().names))

    def evidence(self, metric: str) -> list[Evidence]:
        """Return the evidence after each wave."""
        made: list[Evidence] = []
        for wave in self.waves:
            own = self._products(wave, metric).evidence(self.turn)
            made.append(made[-1].merge(own) if made else own)
        return made

    def starts(self, metric: str) -> list[dict[int, Floats]]:
        """Return where each wave's Newton steps start, by action; none if all outcomes are known.

        A start is known from the evidence alone.
        """
        found = self.evidence(metric)
        return [ReturnModel.begun(one, earlier=None, before=None)[2] for one in found]

    def fits(self, metric: str) -> list[Fitted]:
        """Return what each wave's units are scored with."""
        made: list[Fitted] = []
        for wave, evidence in zip(self.waves, self.evidence(metric), strict=True):
            before = made[-1] if made else None
            curvature, target, starts = ReturnModel.begun(
                evidence,
                earlier=None if before is None else before.evidence,
                before=None if before is None else before.returned,
            )
            groups = of_wave(self.groups["returns"], wave, metric)
            for action, start in starts.items():
                H, c = stepped(groups, action, start, self.turn)
                curvature[action] += H
                target[action] += c
            returned = ReturnModel.of_sums(evidence, curvature, target)
            made.append(Fitted.of(evidence, returned, before))
        return made

    # ------------------------------------------------------------------
    # The statements, and what is read from their results.

    @property
    def metrics(self) -> list[str]:
        """The objective, and every metric that is not the objective itself."""
        every = self.now.spec.metrics.values()
        return [OBJECTIVE, *(one.name for one in every if not self.is_objective(one))]

    def reward(self, metric: str) -> Reward:
        """Return what the outcome is: the objective, or one metric before costs."""
        spec = self.now.spec
        if metric == OBJECTIVE:
            return spec.reward
        return replace(
            spec.reward, terms=(spec.metrics[metric],), weights=(1.0,), unit=None, money=False,
            value=None, less_costs=False,
        )  # fmt: skip

    def units(self, wave: int, metric: str, tables: Tables) -> UnitStages:
        """Return the stages that read a wave."""
        return self._units(wave, metric, tables, ())

    def _units(
        self, wave: int, metric: str, tables: Tables, divisions: Sequence[Partition]
    ) -> UnitStages:
        [closed] = [one for one in self.closed if one.number == wave]
        names = tuple(self.now.actions[number].name for number in self.order)
        reward = self.reward(metric)
        return UnitStages(closed, tables, names, self.order, reward, metric, divisions)

    def scored(
        self, wave: int, metric: str, contrasts: Sequence[Contrast], tables: Tables = NO_TABLES
    ) -> ScoreStatement:
        """Return the statement of a wave's scores; the last wave judges the rule to run next."""
        place, fits = self.waves.index(wave), self.fits(metric)
        judges = self._judges(fits) if (wave, metric) == (self.waves[-1], OBJECTIVE) else ()
        units = self._units(wave, metric, tables, self.divisions(metric))
        return ScoreStatement(units, fits[place], self.turn, contrasts, judges)

    def _judges(self, fits: Sequence[Fitted]) -> list[RuleJudge]:
        last, evidence = self.waves[-1], fits[-1].evidence
        waves = statistics_of([one.evidence for one in fits])
        return [
            RuleJudge.of(
                evidence, waves, self._products(last, OBJECTIVE, fold).evidence(self.turn),
                charges=np.array(self.charges), among=self.given, less=self.less,
            )
            for fold in range(FOLDS)
        ]  # fmt: skip

    def divisions(self, metric: str) -> list[Partition]:
        """Return how the units are divided for the objective, or for a metric."""
        if metric == OBJECTIVE:
            return [*map(Declared, self.segments), *self.partitions()]
        return self.eligibility()

    def asked(self, metric: str) -> tuple[Contrast, ...]:
        """Return the contrasts of the objective, or of a metric."""
        if metric == OBJECTIVE:
            return self.contrasts(wave.active for wave in planned_waves(self.events))
        return self.plain_contrasts

    def summaries(
        self, contrasts: Sequence[Contrast], partitions: Sequence[Partition], *, metric: str = ""
    ) -> tuple[WaveSummary, ...]:
        """Return the summaries of the waves: of the objective, or of a metric before costs."""
        assert list(partitions) == self.divisions(metric)
        assert tuple(contrasts) == self.asked(metric)
        made: list[WaveSummary] = []
        K = len(self.order)
        charges = np.zeros(K) if metric else np.array(self.charges)
        for wave, fit in zip(self.waves, self.fits(metric), strict=True):
            statement = self.scored(wave, metric, contrasts)
            groups = of_wave(self.groups["scores"], wave, metric)
            before = made[-1].residuals if made else ResidualSums.zero(K)
            made.append(WaveSummary(
                contrasts=tuple(contrasts),
                overall=tally(statement.places, groups),
                segments=self._segments(statement, wave, metric),
                evidence=fit.evidence,
                residuals=statement.noise(groups, before),
                returned=fit.returned,
                scarce=statement.scarce_units(groups),
                features=self._products(wave, OBJECTIVE).features(self.turn),
                joint=statement.joint_moments(groups),
                usual=fit.usual,
                charges=charges,
            ))  # fmt: skip
        return tuple(made)

    def _segments(
        self, statement: ScoreStatement, wave: int, metric: str
    ) -> dict[Segment, ScoreSums]:
        """Return the sums over the units of each segment of a wave."""
        made = dict[Segment, ScoreSums]()
        for at, division in enumerate(self.divisions(metric)):
            found = of_division(self.groups["scores"], wave, metric, at)
            for name, groups in found.items():
                level = self._level(division, name)
                made[division, level] = tally(statement.of_segments, groups)
        return made

    def _level(self, division: Partition, segment: str) -> Any:
        """Return a segment as inference from rows has it."""
        if isinstance(division, Eligible):
            return segment == "yes"
        # A division of eligible units has the name of the column.
        met = self.levels.setdefault(division.name, {})
        return met.setdefault(segment, len(met))

    def judged(self, over: int) -> list[JudgedRule]:
        """Return the sums by fold of the rule to run next over one action, in the last wave."""
        last = self.waves[-1]
        statement = self.scored(last, OBJECTIVE, self.asked(OBJECTIVE))
        return statement.judged(of_wave(self.groups["scores"], last, OBJECTIVE), over)

    def next_rule(
        self,
        summaries: Sequence[WaveSummary],
        *,
        level: float,
        less: bool,
        among: Bools,
        planned: float,
        over: int,
    ) -> NextRule:
        """Return the rule to run next, and its gain over one action."""
        return next_rule_of(
            self.judged(over), summaries, level=level, less=less, among=among, planned=planned,
            over=over,
        )  # fmt: skip

    # ------------------------------------------------------------------
    # Counts, as the waves were closed with them.

    def _closing(self, wave: int) -> dict[str, Any]:
        [event] = [one for one in self.events if one.sequence == self.now.closes[wave - 1]]
        return event.payload

    def counts_in(self, wave: int) -> tuple[int, int]:
        """Return how many units of a wave have an outcome, and how many of them count as absent."""
        own = self._closing(wave)
        absent = sum(own["absent"].values())
        return sum(own["observed"].values()) + absent, absent

    def recorded_in(self, wave: int) -> dict[str, int]:
        """Return how many values of each metric were recorded in a wave."""
        return {name: self._of_metric(name, [wave])[0] for name in self.now.spec.metrics}

    def counts_of(self, metric: str) -> tuple[int, int]:
        """Return how many units have a recorded value of a metric, and a value at all."""
        return self._of_metric(metric, self.waves)

    def _of_metric(self, metric: str, waves: Sequence[int]) -> tuple[int, int]:
        name = OBJECTIVE if self.is_objective(self.now.spec.metrics[metric]) else metric
        known = [
            one
            for wave in waves
            for one in of_wave(self.groups["evidence"], wave, name)
            if one.seen
        ]
        units = sum(one.units for one in known)
        return units - sum(one.absent for one in known), units
