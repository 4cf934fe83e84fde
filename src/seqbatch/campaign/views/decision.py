"""The decision: one recommendation, what it is worth, how sure it is, and what it rests on."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from enum import StrEnum
from math import ceil, floor, isfinite, log10, sqrt
from typing import TYPE_CHECKING, Any

from seqbatch.campaign.record.current_situation import FUTILITY, condition_text
from seqbatch.campaign.spec.spec import rule_name
from seqbatch.campaign.views.adjusted_lifts import ERRS
from seqbatch.campaign.views.findings_text import clear
from seqbatch.campaign.views.metrics import broken_names, guardrail_fact
from seqbatch.campaign.views.recommendation import (
    Recommendation,
    best_given,
    for_everybody,
    given_shares,
)
from seqbatch.campaign.views.status import wave_list
from seqbatch.display import counted, enumerated, percent
from seqbatch.document import Facts, Heading, Part, part_lines
from seqbatch.inference import Interval, Verdict
from seqbatch.inference.estimates import ENOUGH

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Findings


class DecisionCode(StrEnum):
    """What a campaign's findings allow to decide."""

    GIVE = "give"
    CHOOSE = "choose-by-unit"
    KEEP = "keep-control"
    NOTHING = "no-action"
    NOT_CLEAR = "not-clear"
    CHANGED = "changed"
    TOO_FEW = "too-few-events"
    MASKED = "masked"
    NO_DATA = "no-data"


@dataclass(frozen=True, kw_only=True)
class CampaignDecision:
    """One recommendation, with what a reader needs to follow it or not.

    Parameters
    ----------
    code
        What is recommended; programs should read it.
    action
        The action to give to all units, or the best one if none can be recommended yet; None if
        there is none.
    title, about
        The campaign's question, and its dates, size and owner.
    lead
        The recommendation in one sentence.
    worth
        What it is worth, or why nothing else can be recommended.
    lift, expected
        The lift that the recommendation rests on, and what a roll-out may expect; None if unknown.
    total, units
        What a roll-out may expect in all, for so many units.
    further
        About how many further units would tell; None if that does not help, or is not known.
    answers
        How sure it is: questions with their answers.
    facts
        Guardrails, the data, and what the campaign earned, each with its label.
    """

    code: DecisionCode
    title: str
    about: str
    lead: str
    action: str | None = None
    worth: tuple[str, ...] = ()
    lift: Interval | None = None
    expected: Interval | None = None
    total: Interval | None = None
    units: int = 0
    further: int | None = None
    answers: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    def parts(self) -> list[Part]:
        """Return the decision as parts of a document, without its title."""
        told = [Facts(one) for one in (self.answers, self.facts) if one]
        return [self.about, Heading(self.lead), *self.worth, *told]

    def plain(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        made = asdict(self)
        made["answers"] = [{"question": one, "answer": other} for one, other in self.answers]
        made["facts"] = [{"label": one, "text": other} for one, other in self.facts]
        return made

    def __str__(self) -> str:
        """Return the decision in a few lines, without dates."""
        said = [self.lead, *self.worth]
        return "\n".join([*said, *(part_lines(Facts(self.answers)) if self.answers else [])])


#: What a total is about, also if it was estimated in the latest waves alone.
ROLL_OUT, LASTING = "In a roll-out expect", "If that lasts, in a roll-out expect"
#: Further units are proposed up to so many times those so far.
MOST_FURTHER = 20
#: The normal quantile of a power of 80%.
POWER = 0.84
#: Above this share of missing outcomes, the reader is warned.
MUCH_MISSING = 0.2


def decided(found: "Findings") -> CampaignDecision:
    """Return the decision that findings allow: one recommendation, and never a losing one."""
    return _Deciding(found).decision()


class _Deciding:
    """Findings, and the parts of their decision."""

    def __init__(self, found: "Findings") -> None:
        self.found, self.measure, self.course = found, found.measure, found.course
        self.who = f"every {found.measure.of}"

    def decision(self) -> CampaignDecision:
        """Return the decision."""
        found, made = self.found, self.found.recommendation
        if not found.known or found.all_equal or made is None:
            return self._undecided()
        if self.course.masked:
            lead = "The campaign is masked: unmask it before you decide."
            return self._made(DecisionCode.MASKED, lead, sure=False)
        if made.code is Verdict.TOO_FEW:
            lead = f"Too few events to judge: {self._then(self._keep())}."
            few = made.few
            so_far = "" if few is None else (
                f"About {int(few.expected)} count so far; {few.needed} are needed."
            )  # fmt: skip
            return self._made(DecisionCode.TOO_FEW, lead, worth=(so_far,))
        if (made.action is None) or made.lift is None or made.latest is None:
            return self._kept("every other action breaks a guardrail")
        if self._rule_wins(made):
            return self._choose()
        return self._by_verdict(made, made.action, made.lift, made.latest)

    # The recommendation.

    def _undecided(self) -> CampaignDecision:
        """Return the decision if nothing can be compared."""
        found = self.found
        if not found.known or found.all_equal:
            return self._made(DecisionCode.NO_DATA, self._no_data())
        told = [lift.interval.note for lift in found.lifts[:1] if lift.interval.note]
        lead = f"Nothing can be compared with {found.control} yet."
        return self._made(DecisionCode.NO_DATA, lead, worth=told)

    def _by_verdict(
        self, made: Recommendation, name: str, lift: Interval, latest: Interval
    ) -> CampaignDecision:
        alone = f"in {wave_list(made.latest_waves)} alone it brought {self._size(latest)}"
        over = f"{self.measure.column}, compared with {self.found.control}"
        waves = f"Wave by wave: {self._each(made)} ({over}); {alone}."
        match made.code:
            case Verdict.GIVE | Verdict.GIVE_CHANGED if self._gains(name, lift):
                lead = f"Give {name} to {self._everyone(name)}."
                if self.goes_on:
                    lead = f"So far {name} is best: {self._continue()}."
                told = [f"{self._size(lift)}{self._among(name)}."]
                if made.code is Verdict.GIVE_CHANGED:
                    told.append(f"The lift changed between waves, but {alone}.")
                told.append(self._roll_out(name, lift))
                return self._made(DecisionCode.GIVE, lead, action=name, lift=lift, worth=told)
            case Verdict.CHANGED:
                lead = f"The effect of {name} changed between waves: {self._another()}."
                told = ["The average says little about what it brings now.", waves]
                return self._made(DecisionCode.CHANGED, lead, action=name, lift=latest, worth=told)
            case Verdict.BETTER_NOW:
                lead = f"{name} is better in the latest waves alone: {self._another()}."
                told = ["It has to be confirmed first.", waves]
                return self._made(DecisionCode.CHANGED, lead, action=name, lift=latest, worth=told)
            case Verdict.WORSE:
                best = ", the best of the other actions," if len(self.found.lifts) > 1 else ""
                return self._kept("", [f"{name}{best} is clearly worse: {self._size(lift)}."])
        stop = self.found.stopping.end
        if stop is not None and stop.verdict == FUTILITY:
            told = [f"{name} has the best estimate: {self._size(lift)}."]
            return self._kept("the declared rule stopped the campaign for futility", told)
        return self._not_clear(made, name, lift, alone)

    def _not_clear(
        self, made: Recommendation, name: str, lift: Interval, alone: str
    ) -> CampaignDecision:
        lead = f"No clear winner: {self._then(self._keep())}."
        if self.goes_on:
            lead = f"No clear winner yet: {self._continue()}."
        told = [f"{name} has the best estimate: {self._size(lift)}{self._among(name)}."]
        if not self.measure.better(lift.estimate):
            best = f"{name}, the best of them," if len(self.found.lifts) > 1 else name
            told = [
                f"No action beats {self.found.control} by its estimate: {best} brought "
                f"{self._size(lift)}{self._among(name)}."
            ]
        further = None
        if made.code is Verdict.UNCONFIRMED:
            told.append(f"The latest outcomes do not confirm it: {alone}.")
        elif (further := self._further(lift)) is not None:
            more = counted(further, f"more {self.measure.of}")
            told.append(f"If that is right, about {more} would tell{self._room(further)}.")
        elif self.measure.better(lift.estimate):
            told.append("Even many more would hardly tell: the difference, if any, is small.")
        return self._made(
            DecisionCode.NOT_CLEAR, lead, action=name, lift=lift, worth=told, further=further
        )

    def _choose(self) -> CampaignDecision:
        found, noun = self.found, f"{self.measure.of}s"
        assert found.rule is not None
        shares, gain = given_shares(found), found.rule.gain
        given = [f"{one} to {percent(share)}" for one, share in shares.items()
                 if one != found.control]  # fmt: skip
        rest = f", and {found.control} to the rest" if found.control in shares else ""
        lead = f"Choose by features: give {enumerated(given)} of {noun}{rest}."
        if self.goes_on:
            lead = f"So far it is best to choose by features: {self._continue()}."
        told = [
            f"{self._size(gain)}, from the last wave (approximate).",
            self._in_all(gain, noun),
        ]
        return self._made(DecisionCode.CHOOSE, lead, lift=gain, worth=told, expected=gain)

    def _kept(self, why: str, told: Sequence[str] = ()) -> CampaignDecision:
        """Return the decision for the control."""
        none = self.found.control in self.found.barred
        return self._made(
            DecisionCode.NOTHING if none else DecisionCode.KEEP,
            f"{self._keep()}{f': {why}' if why else ''}.",
            action=None if none else self.found.control,
            worth=told,
        )

    def _made(
        self,
        code: DecisionCode,
        lead: str,
        *,
        action: str | None = None,
        lift: Interval | None = None,
        expected: Interval | None = None,
        worth: Sequence[str] = (),
        further: int | None = None,
        sure: bool = True,
    ) -> CampaignDecision:
        if code is DecisionCode.GIVE and action is not None and lift is not None:
            expected = self._expected(action, lift)
        total = None if expected is None else times(expected, self.many)
        return CampaignDecision(
            code=code, title=self.course.question or f"Campaign {self.found.name}",
            about=self._about(), lead=lead, action=action, worth=tuple(worth), lift=lift,
            expected=expected, total=total, units=0 if total is None else self.many,
            further=further, answers=tuple(self._answers(code)) if sure else (),
            facts=tuple(self._facts(code, action)),
        )  # fmt: skip

    # Words for the lead.

    @property
    def goes_on(self) -> bool:
        """Whether units can still be assigned."""
        return self.found.condition == "open"

    def _keep(self) -> str:
        if self.found.control in self.found.barred:
            return "No action can be recommended"
        return f"Keep {self.found.control}"

    def _then(self, clause: str) -> str:
        """Return a clause to follow a colon."""
        return f"{clause[:1].lower()}{clause[1:]}"

    def _continue(self) -> str:
        return f"continue with wave {self.course.wave} of {len(self.course.sizes)}"

    def _another(self) -> str:
        return self._continue() if self.goes_on else "run another wave"

    def _share(self, action: str) -> float:
        """Return the share of units that may get an action and the control."""
        return next(lift.among for lift in self.found.lifts if lift.action == action)

    def _everyone(self, action: str) -> str:
        return f"{self.who}{'' if self._share(action) == 1 else ' who may get it'}"

    def _among(self, action: str) -> str:
        share, noun = self._share(action), f"{self.measure.of}s"
        if share == 1:
            return ""
        return f", among the {percent(round(share, 3))} of {noun} who may get both"

    def _no_data(self) -> str:
        found = self.found
        if found.known:
            return "All outcomes so far are equal: there is nothing to compare yet."
        if found.waiting:
            return f"No outcomes count yet: {wave_list(found.waiting)} still waits for some."
        if found.open_wave is not None:
            return f"No outcomes yet: wave {found.open_wave} is open."
        return "No outcomes yet."

    def _about(self) -> str:
        course, found = self.course, self.found
        units = self._units(course.assigned)
        if self.goes_on:
            size = f"{units} so far, wave {course.wave} of {len(course.sizes)}"
            when = f"began {_day(course.began)}"
        else:
            size = f"{units} in {counted(sum(one > 0 for one in course.units), 'wave')}"
            when = f"{condition_text(found.condition)} {_day(course.ended or course.began)}"
        named = [found.name] if course.question else []
        return " · ".join([*named, when, size, *([course.owner] if course.owner else [])])

    def _units(self, count: int) -> str:
        return counted(count, self.measure.of)

    # What it is worth.

    def _size(self, lift: Interval) -> str:
        amount = self.measure.amount(lift.estimate, lift.error)
        return f"{amount} than {self.found.control} ({self.measure.between(lift)})"

    def _expected(self, action: str, lift: Interval) -> Interval:
        """Return what a roll-out may expect.

        The best of several estimates is too good; and if the lift changed, only the latest waves
        tell what it is now.
        """
        one, made = self.found.selected, self.found.recommendation
        if made is not None and made.code is Verdict.GIVE_CHANGED and made.latest is not None:
            return made.latest
        answer = next(each for each in self.found.lifts if each.action == action)
        adjusted = answer.adjusted is not None and answer.adjusted.known
        return lift if one is None or one.action != action or adjusted else one.expected

    def _gains(self, action: str, lift: Interval) -> bool:
        """Whether an action gains by every estimate that is shown."""
        better = self.measure.better
        return better(lift.estimate) and better(self._expected(action, lift).estimate)

    def _roll_out(self, action: str, lift: Interval) -> str:
        noun = f"{self.measure.of}s{'' if self._share(action) == 1 else ' who may get it'}"
        made, latest = self._expected(action, lift), self.found.recommendation
        if latest is not None and made is latest.latest:
            return self._in_all(made, noun, when=LASTING)
        same = self._total(made) == self._total(lift)
        less = "" if same else ": the best of several estimates is a little too good"
        return self._in_all(made, noun, why=less)

    def _in_all(self, gain: Interval, noun: str, *, when: str = ROLL_OUT, why: str = "") -> str:
        total = times(gain, self.many)
        return (
            f"{when} about {self._total(gain)} for every {self.many:,} {noun} "
            f"({self.measure.in_all.between(total)}){why}."
        )

    def _total(self, gain: Interval) -> str:
        total = times(gain, self.many)
        return self.measure.in_all.total(total.estimate, total.error)

    @property
    def many(self) -> int:
        """For how many units a total is stated: a power of ten, at most those planned."""
        planned = max(sum(self.course.sizes), self.course.assigned, 1)
        return int(10 ** min(max(floor(log10(planned)), 3), 6))

    def _each(self, made: Recommendation) -> str:
        number = self.measure.number
        return ", ".join(
            f"{'+' if one.estimate > 0 else ''}{number(one.estimate, one.error)}"
            for one in made.by_wave.values()
        )

    def _further(self, lift: Interval) -> int | None:
        """Return how many more units would show the lift with a power of 80%, if it is right."""
        if not self.measure.better(lift.estimate) or not isfinite(lift.high - lift.low):
            return None
        wide = (lift.high - lift.low) / 2 + POWER * lift.error
        if wide > sqrt(1 + MOST_FURTHER) * abs(lift.estimate):
            return None
        needed = self.found.units * ((wide / lift.estimate) ** 2 - 1)
        step = 10 ** max(floor(log10(max(needed, 1))) - 1, 0)
        return int(ceil(max(needed, 1) / step) * step)

    def _room(self, further: int) -> str:
        left = sum(self.course.left)
        if not self.goes_on or not left:
            return ""
        coming = self.course.left[0]
        if coming >= further:
            return f"; wave {self.course.wave} has {coming:,}"
        enough = "" if left >= further else " only"
        return f"; the planned waves have{enough} {left:,}"

    # How sure it is.

    def _answers(self, code: DecisionCode) -> Iterator[tuple[str, str]]:
        found, made, rule = self.found, self.found.recommendation, self.found.rule
        if made is None or made.action is None or made.lift is None:
            return
        if code is DecisionCode.CHOOSE and rule is not None:
            yield f"Better than {found.control} for all?", self._told(rule.gain)
            if rule.best is not None and rule.over_best is not None:
                told = self._told(rule.over_best, over=rule.best)
                yield "Better than one action for all?", told
            return
        yield f"Better than {found.control}?", self._surely(made, made.lift)
        if code is DecisionCode.CHANGED:
            return
        if made.second is not None and made.over_second is not None and self._leads(made):
            yield "Better than the second best?", self._told(made.over_second, over=made.second)
        if said := self._finer():
            yield f"Better to choose by {self.measure.of}?", said

    def _leads(self, made: Recommendation) -> bool:
        assert made.lift is not None
        return self.measure.better(made.lift.estimate)

    def _surely(self, made: Recommendation, lift: Interval) -> str:
        if not clear(lift):
            return "Not shown."
        if not self.measure.better(lift.estimate):
            return "No, it is worse."
        if made.code is Verdict.GIVE:
            several = len(made.by_wave) > 1
            return "Yes, and the latest outcomes agree." if several else "Yes."
        if made.code is Verdict.UNCONFIRMED:
            return "Yes on average, but the latest outcomes do not confirm it."
        if made.code is Verdict.GIVE_CHANGED:
            return "Yes, also in the latest waves alone; but the effect changed between waves."
        return "On average, but the effect changed between waves."

    def _told(self, difference: Interval, *, over: str = "") -> str:
        said = self.measure.signed(difference, plus=True, over=over)
        if not clear(difference):
            return f"Not shown: {said}."
        return f"{'Yes' if self.measure.better(difference.estimate) else 'No'}: {said}."

    def _rule_wins(self, made: Recommendation) -> bool:
        """Whether choosing by features is clearly better than control and every single action."""
        rule, better = self.found.rule, self.measure.better
        if (
            rule is None
            or for_everybody(self.found) is not None
            or self.found.barred & given_shares(self.found).keys()
        ):
            return False
        every = [rule.gain, *([rule.over_best] if rule.over_best is not None else [])]
        return all(one.known and better(one.low) and better(one.high) for one in every) and (
            made.code is not Verdict.BETTER_NOW
        )

    def _finer(self) -> str:
        """Say whether it is worth giving different units different actions."""
        found, rule = self.found, self.found.rule
        if rule is None or not rule.coefficients or len(rule.columns) < 2:
            return ""
        if (single := for_everybody(found)) is not None:
            return f"No: {single} is the best for nearly all {self.measure.of}s."
        if broken := found.barred & given_shares(found).keys():
            return f"Not yet: the rule would give {enumerated(sorted(broken))}."
        gain = rule.gain if rule.over_best is None else rule.over_best
        if not gain.known:
            return f"Not known. {gain.note}"
        beside = found.control if rule.over_best is None else rule.best or ""
        said = f"{self.measure.signed(gain, plus=True, over=f'{beside} for all')}, approximate"
        if clear(gain) and self.measure.better(gain.estimate):
            return f"Yes: {said}."
        return f"Not worth it: {said}."

    # What it rests on.

    def _facts(self, code: DecisionCode, action: str | None) -> Iterator[tuple[str, str]]:
        found = self.found
        for warning in found.quality.warnings:
            yield "Check first", warning
        if not found.known:
            return
        if found.all_equal:
            yield "Rests on", self._rests()
            return
        better = best_given(found)
        if (
            better is not None
            and better.action in found.barred
            and self.measure.better(better.interval.estimate)
        ):
            yield (
                "Ruled out",
                f"{better.action} has the best estimate, but breaks the guardrail on "
                f"{broken_names(found, better.action)}.",
            )
        given = list(given_shares(found)) if code is DecisionCode.CHOOSE else [action]
        shown = [name for name in given if name is not None] or [found.control]
        if said := guardrail_fact(found, shown):
            yield "Guardrails", said
        yield "Rests on", self._rests()
        if careful := self._careful():
            yield "Careful", careful
        if stop := self._stopping(action):
            yield "Stopping rule", stop
        if earned := self._earned():
            yield "The campaign", earned

    def _rests(self) -> str:
        found = self.found
        gone = 1 - found.outcomes / found.units
        said = [f"{self._units(found.outcomes)} with outcomes"]
        if found.absent:
            said.append(f"{found.absent:,} of them without a row, counted as declared")
        said.append(f"{percent(round(gone, 3))} missing" if found.outcomes < found.units
                    else "none missing")  # fmt: skip
        if any(len(lift.waves) > 1 for lift in found.lifts):
            moved = [lift.action for lift in found.lifts
                     if len(lift.waves) > 1 and lift.same_p < 0.05]  # fmt: skip
            said.append(
                f"the effect of {enumerated(moved)} changed between waves"
                if moved
                else "no change of effects between waves found"
            )
        return f"{', '.join(said)}."

    def _careful(self) -> str:
        found, said = self.found, []
        thin = sorted({one.wave for mean in found.means for one in mean.waves
                       if one.effective < ENOUGH})  # fmt: skip
        if thin:
            said.append(
                f"Some action has few outcomes in {wave_list(thin)}: intervals are less reliable."
            )
        if 1 - found.outcomes / found.units > MUCH_MISSING:
            said.append(
                "Many outcomes are missing: this holds if they would not differ from recorded "
                "ones of similar units."
            )
        return " ".join(said)

    def _stopping(self, action: str | None) -> str:
        looks, end = self.found.stopping.looks, self.found.stopping.end
        if self.goes_on or not looks or not looks[-1].stops:
            return ""
        last = looks[-1]
        lift = next((one for one in self.found.lifts if one.action == action), None)
        said = f"{rule_name(last.rule)}, as declared: {last.verdict} after wave {last.wave}."
        if lift is None or lift.adjusted is None or not lift.adjusted.known or lift.same is None:
            return said
        errs = None if end is None else ERRS.get(end.verdict)
        if errs is None:
            return said
        if not lift.earlier_looks:
            return f"{said} Lifts of campaigns that end at their first look are {errs}."
        plain = self.measure.amount(lift.same.estimate, lift.same.error)
        return f"{said} The lift allows for it; the plain estimate, {plain}, is {errs}."

    def _earned(self) -> str:
        run = self.found.run
        if run is None or not run.adaptive or not run.earned.known:
            return ""
        measure = self.measure
        units = sum(self.course.units[wave - 1] for wave in run.adaptive)
        total = times(run.earned, units)
        if not measure.better(total.estimate) or not clear(total):
            return ""
        size = measure.in_all.total(total.estimate, total.error)
        verb = "earned" if measure.direction == "max" else "had"
        return f"{verb} about {size} than equal shares would have, in {wave_list(run.adaptive)}."


def times(interval: Interval, units: int) -> Interval:
    """Return an interval for so many units together."""
    own = {one.name: getattr(interval, one.name) for one in fields(Interval)}
    sizes = {name: units * own[name] for name in ("estimate", "error", "low", "high")}
    return Interval(**{**own, **sizes})


def _day(day: str) -> str:
    """Return a day in words.

    >>> _day("2026-11-06")
    '6 November 2026'
    """
    parsed = date.fromisoformat(day)
    return f"{parsed.day} {parsed:%B %Y}"
