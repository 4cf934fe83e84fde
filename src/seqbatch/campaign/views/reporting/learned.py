"""What was learned: outcomes, the value of the run against its plan, metrics, and the data."""

from seqbatch.campaign.deciding.balance import SMALL
from seqbatch.campaign.views.findings_words import EQUAL, NONE_YET
from seqbatch.campaign.views.measure import percent
from seqbatch.campaign.views.reporting.document import Items, Part, Picture, Section
from seqbatch.campaign.views.reporting.material import DIFFERENT, Material
from seqbatch.campaign.views.reporting.pictures import Bar, intervals
from seqbatch.campaign.views.reporting.placed import placed
from seqbatch.campaign.views.words import absences, clipped_text, measured, violations
from seqbatch.display import Table, counted, number
from seqbatch.inference import Interval
from seqbatch.inference.pooling import ENOUGH
from seqbatch.planning import Plan


def nothing(of: Material) -> str | None:
    """Say why there is nothing to say about outcomes, None where there is something."""
    if not of.found.known:
        return NONE_YET
    return EQUAL if of.found.all_equal else None


def outcomes(of: Material) -> Section:
    """Return every action's mean with its interval, pooled and wave by wave."""
    title = "What came back"
    if (why := nothing(of)) is not None:
        return Section("outcomes", title, [why])
    found, measure = of.found, of.found.measure
    known = [mean for mean in found.means if mean.interval.known]
    bars = [Bar.of(measure, mean.action, mean.interval) for mean in known]
    words = f"{measure.head} if every {measure.of} got the action"
    picture = Picture(
        lambda: intervals(bars, title=words),
        f"{words}, with {percent(found.level)} intervals: {'; '.join(b.words for b in bars)}.",
        f"{words[0].upper()}{words[1:]}, with {percent(found.level)} intervals.",
    )
    parts: list[Part] = [picture] if bars else []
    if measure.costs:
        parts.append("What actions cost is part of all numbers.")
    if len(found.waves) > 1 and found.lifts:
        parts.append(
            "What an action brings over another is averaged over the waves by itself: it need not "
            "be exactly the difference of two means."
        )
    parts += placed(found)["outcomes"]
    if found.means:
        parts.append(
            "Effective outcomes are how many outcomes of the action a wave is worth, had they been "
            f"given evenly; with fewer than {ENOUGH} it has not been shown that intervals hold."
        )
    return Section("outcomes", title, parts)


def value(of: Material) -> Section:
    """Return what the run brought, against simpler ways and against its plan."""
    title = "What the campaign itself brought"
    if (why := nothing(of)) is not None:
        return Section("value", title, [why])
    found = of.found
    parts: list[Part] = [
        "A campaign that learns on the way gives more and more units what works. This is what that "
        "was worth while it ran, as the outcomes say."
    ]
    parts += placed(found)["value"]
    return Section("value", title, [*parts, *_against_plan(of)])


def _against_plan(of: Material) -> list[Part]:
    """Set the gain over random assignment beside the plan's, where the plan can be made again."""
    run, measure = of.found.run, of.found.measure
    if run is None or not run.over_random.known or of.plan is None:
        return []
    noises = {noise for _, noise in of.plan.model.scenarios}
    certain = len(noises) == len(of.plan.request.law.guesses) == 1
    if not certain or len(of.found.waves) < len(of.now.sizes):
        return []
    gain = run.over_random
    planned, most = promised(of.plan)
    least = "" if most is None else (
        f" If that were so, no way of running these waves could have expected more than "
        f"{number(measure.scale * most, 2)}, by the lower bound on what must be lost.")  # fmt: skip
    sign = 1 if measure.direction == "max" else -1
    seen = Interval(about="", estimate=sign * gain.estimate, error=gain.error, df=gain.df,
                    level=gain.level, low=min(sign * gain.low, sign * gain.high),
                    high=max(sign * gain.low, sign * gain.high))  # fmt: skip
    effect, [noise] = of.plan.model.effect, noises
    return [
        f"Against the plan, in {measure.head} over assigning everybody at random: planned "
        f"{number(measure.scale * planned, 2)}, measured {measure.signed(seen)}. The plan "
        f"assumed that a perfect choice gains {number(measure.scale * effect, 2)} over a random "
        f"one on average, and noise of {number(measure.scale * noise, 2)}.{least} Where the truth "
        "is another, so is what can be gained."
    ]


def promised(plan: Plan) -> tuple[float, float | None]:
    """Return the gain over random assignment that a plan expects, and the most that any could."""
    effect = plan.model.effect
    lost, bound = plan.row.regret / plan.units, plan.row.lower_bound / plan.units
    return effect - lost, effect - bound if bound == bound else None


def metrics(of: Material) -> Section:
    """Return what was watched besides the outcome, and whether it kept within its bounds."""
    rows = [
        [measured(row.metric, None if row.unit is None else f"({row.unit})"), row.action, row.count,
         row.missing, "" if row.mean is None else number(row.mean, 3), _wanted(row),
         {None: "", True: "passed", False: "VIOLATED"}[row.passed]]
        for row in of.status.metrics
    ]  # fmt: skip
    if not rows:
        declared = bool(of.now.spec.metrics)
        said = NONE_YET if declared else "No metric and no guardrail was declared."
        return Section("metrics", "Guardrails and other metrics", [said])
    words = ("metric", "action", "wanted", "verdict")
    columns = ("metric", "action", "outcomes", "missing", "mean", "wanted", "verdict")
    broken = violations(of.status.metrics)
    guarded = any(row.guardrail is not None for row in of.status.metrics)
    absent = "" if of.now.absent is None else " (units that count as absent have no metrics)"
    kept = ["Every mean is within its guardrail."] if guarded and not broken else []
    return Section("metrics", "Guardrails and other metrics", [
        *([Items(broken)] if broken else kept),
        f"Plain means of what was recorded{absent}: they watch for harm, and are no comparison of "
        "actions.",
        Table("Metrics", columns, rows, words=words, keys=2),
    ])  # fmt: skip


def _wanted(row: object) -> str:
    guardrail, more = getattr(row, "guardrail", None), getattr(row, "direction", "max") == "max"
    if guardrail is None:
        return "more" if more else "less"
    return f"at {'least' if more else 'most'} {number(guardrail, 3)}"


def quality(of: Material) -> Section:
    """Return what came in and what is suspicious about it."""
    return Section("quality", "The data", [Items(_checks(of)), *placed(of.found)["quality"]])


def _checks(of: Material) -> list[str]:
    """Return each check in a line, whether or not something was found."""
    found, status = of.found, of.status
    waves = found.quality.waves
    said = list(found.quality.warnings)
    tested = [one for one in waves if one.allocation_p is not None]
    if tested and all((one.allocation_p or 0) >= SMALL for one in tested):
        said.append("Sample ratio: in every closed wave actions were given as often as planned.")
    closed = [wave for wave in status.waves if wave.closed]
    units = sum(wave.assigned for wave in closed)
    absent = sum(wave.absent for wave in status.waves)
    if units:
        gone = units - sum(wave.observed + wave.absent for wave in closed)
        said.append(f"Missing: {gone:,} of {of.units(units)} of closed waves have no outcome "
                    f"({percent(round(gone / units, 3))}).")  # fmt: skip
    if absent:
        recorded = sum(wave.observed for wave in status.waves)
        told = absences(recorded, absent, status.absent_value, status.unit)
        said.append(f"Absent: {told}.")
    if len(found.waves) > 1:
        moved = [one.about for one in found.drift if one.p < DIFFERENT]
        said.append(f"Drift: not the same in all waves: {', '.join(moved)}." if moved
                    else "Drift: nothing is clearly different from wave to wave.")  # fmt: skip
    held = status.conflicts + status.quarantined
    said.append(
        f"Held rows: {counted(status.conflicts, 'conflict')}, {status.quarantined:,} quarantined "
        "(rows that were sent again count again)." if held else "Held rows: none."
    )  # fmt: skip
    said.append(f"{clipped_text(status.clipped)}." if status.clipped else "Clipped values: none.")
    return [*said, *(note for note in found.notes if note not in found.quality.warnings)]
