"""Status and spec in words, tables and a picture."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seqbatch.campaign.decide.counts import MetricRow
from seqbatch.campaign.decide.replanning import proposal_text
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.views.status import limits_table
from seqbatch.display import Table, alike, cell, counted, number, visible
from seqbatch.pictures import COLOURS
from seqbatch.policies.registry import text

if TYPE_CHECKING:
    import altair as alt

    from seqbatch.campaign.views.status import Status, WaveStatus


# ----------------------------------------------------------------------
# Who may get what, how many, and how draws are balanced: what a spec declares of it, in words.


def rules_said(spec: Spec) -> list[str]:
    """Return who may get each action that not everybody may get."""
    return [f"{name}: {rule}" for name, rule in spec.eligible.items()]


def nobody_said(spec: Spec) -> str:
    """Say what becomes of units that may get nothing."""
    fallback = "is refused" if spec.fallback is None else f"gets {spec.fallback}"
    return f"Where a value is missing the unit is not eligible; who may get nothing {fallback}."


def balance_said(spec: Spec) -> list[str]:
    """Say what balanced draws do; nothing where draws are independent."""
    if not spec.balanced:
        return []
    within = "" if not spec.strata else f" and within {' and '.join(_chain(spec.strata))}"
    return [
        "Draws are balanced: all units of a file are drawn together, and the number that "
        f"gets an action, in all{within}, is its expectation rounded up or down."
    ]


def limits_said(spec: Spec) -> list[str]:
    """Return capacities, quotas and the budget, one line each."""
    said = [
        f"{name}: {_amounts(one.each_wave, one.total, one.at_least)}"
        for name, one in spec.capacity.items()
    ]
    if spec.budget is not None:
        said.append(f"Budget: {_amounts(spec.budget.each_wave, spec.budget.total, 0)}")
    return said


def constraints_said(spec: Spec) -> list[str]:
    """Return all that is declared of rules, limits and balance, a sentence or two each."""
    said = []
    if spec.eligible:
        rules = "; ".join(rules_said(spec))
        said += [f"Not everybody may get every action. {rules}. {nobody_said(spec)}"]
    if limits := limits_said(spec):
        said.append(f"Limits: {'. '.join(limits)}.")
    return [*said, *balance_said(spec)]


def _chain(strata: Sequence[str]) -> Iterator[str]:
    """Yield the levels at which draws are balanced: the first column, the first two, and so on."""
    for end in range(1, len(strata) + 1):
        yield f"each {' x '.join(strata[:end])}"


def _amounts(each_wave: float | None, total: float | None, at_least: float) -> str:
    said = [
        *([f"at most {each_wave:,g} in each wave"] if each_wave is not None else []),
        *([f"at most {total:,g} in all"] if total is not None else []),
        *([f"at least {at_least:,g} in each wave"] if at_least else []),
    ]
    return "; ".join(said)


# ----------------------------------------------------------------------
# What a policy does, for people who run campaigns and not policies.


GREEDY = "units get the action that looks best for them so far"
HOPEFUL = (
    "units get the action that may turn out best for them, so that little-known ones are tried"
)

#: What each policy does once something is known.
PLAIN = {
    "SBPE": GREEDY,
    "BPE": GREEDY,
    "RBGL": GREEDY,
    "LBGL": GREEDY,
    "SBUCB": HOPEFUL,
    "LinUCB": HOPEFUL,
    "SupSBUCB": HOPEFUL,
    "ThompsonSampling": "units get each action as often as it is likely to be best for them",
    "EpsilonGreedy": f"{GREEDY}, and a share of them a random one",
    "UniformRandom": "all units get an action at random",
    "FixedAction": "all units get the same action",
}


def plainly(policy: Mapping[str, Any]) -> str:
    """Return what a policy does, in a clause.

    >>> plainly({"kind": "SBPE", "first": "uniform"})
    'the first wave at random, then units get the action that looks best for them so far'
    >>> plainly({"kind": "UniformRandom"})
    'all units get an action at random'
    """
    first = "the first wave at random, then " if policy.get("first") == "uniform" else ""
    return first + PLAIN[policy["kind"]]


# ----------------------------------------------------------------------
# The picture of a status: how units were shared out, and what came back, wave by wave.


def picture(status: "Status") -> "alt.HConcatChart":
    """Draw how units were shared out, and what came back, wave by wave."""
    import altair as alt

    names = list(dict.fromkeys(visible(row.action) for row in status.actions))
    rows: list[dict[str, Any]] = [
        {
            "wave": row.wave,
            # An SVG cannot hold control characters.
            "action": visible(row.action),
            "place": names.index(visible(row.action)),
            "units": row.units,
            "mean": row.weighted,
        }
        for row in status.actions
    ]
    base = alt.Chart({"values": rows}).encode(
        color=alt.Color(
            "action:N",
            title=None,
            sort=names,
            scale=alt.Scale(
                domain=names, range=[COLOURS[n % len(COLOURS)] for n in range(len(names))]
            ),
            legend=alt.Legend(orient="top", labelLimit=320),
        )
    )
    shares = base.mark_bar().encode(
        x=alt.X("wave:O", title="wave", axis=alt.Axis(labelAngle=0)),
        y=alt.Y(
            "sum(units):Q", stack="normalize", title="share of units", axis=alt.Axis(format="%")
        ),
        order=alt.Order("place:Q", sort="descending"),
    )
    place = alt.X("wave:O", title="wave", axis=alt.Axis(labelAngle=0))
    offset = alt.XOffset("action:N", sort=names)
    seen = base.transform_filter("isValid(datum.mean)")
    means = seen.mark_point(filled=True, size=60).encode(
        x=place,
        xOffset=offset,
        y=alt.Y("mean:Q", title=_axis(status), scale=alt.Scale(zero=False)),
    )
    chart: alt.HConcatChart = alt.hconcat(
        shares.properties(width=240, height=280, title="Who got what"),
        means.properties(width=360, height=280, title="What came back"),
    )
    return chart


def _axis(status: "Status") -> str:
    """Name the numbers of the second picture, with their unit."""
    unit = "" if status.unit is None else f" ({visible(status.unit)})"
    return f"weighted mean outcome{unit}"


# ----------------------------------------------------------------------
# Where a campaign stands, in words and tables: the same on a terminal, a page and in a notebook.
#
# The means are raw. The weighted means undo the unequal probabilities with which units got their
# actions, by the logged probabilities, and take outcomes to be missing at random. Intervals, and
# comparisons of one action with another, are a matter of findings.


#: What the column `randomised` does not count.
FIRST_WAVE = (
    "Randomised units are those of the share that the spec keeps for chance alone; in the first "
    "wave all others get their action at random, too."
)


def short(status: "Status") -> str:
    """Return the status in one line.

    >>> from seqbatch.campaign.views.status import Status
    >>> status = Status(name="spring", condition="finished", wave=3, left=None,
    ...     policy={"kind": "RBGL"}, control=None, waves=(), actions=(), conflicts=0,
    ...     quarantined=0, notes=(), events=9, hash="", state="")
    >>> short(status)
    'spring: finished; 0 units, 0 outcomes; 9 events'
    """
    units = sum(wave.assigned for wave in status.waves)
    outcomes = sum(wave.observed for wave in status.waves)
    room = "" if status.left is None else f", room for {counted(status.left, 'more unit')}"
    where = f"wave {status.wave} of {len(status.waves)}{room}"
    return (
        f"{status.name}: {where if status.condition == 'open' else status.condition}; "
        f"{counted(units, 'unit')}, {counted(outcomes, 'outcome')}; "
        f"{counted(status.events, 'event')}"
    )


def heading(status: "Status") -> str:
    """Return what stands above the tables."""
    where = f"wave {status.wave}" if status.condition == "open" else status.condition
    return (
        f"Campaign {status.name}: {where}; {counted(status.events, 'event')}. Policy "
        f"{text(status.policy)}: {plainly(status.policy)}."
    )


def tables(status: "Status") -> list[Table]:
    """Return the waves, what was assigned in them, and what was observed."""
    absent = status.absent_value is not None or any(wave.absent for wave in status.waves)
    named = {row.action: row.action for row in status.actions}
    if status.control in named:
        named[status.control] += " (control)"
    waves = Table(
        "Waves",
        ("wave", "size", "assigned", "outcomes", *(["absent"] if absent else []), "state"),
        [
            (
                wave.wave,
                "open-ended" if wave.size is None else wave.size,
                wave.assigned,
                wave.observed,
                *([wave.absent] if absent else []),
                _state(status, wave),
            )
            for wave in status.waves
        ],
        words=("state",),
    )
    assigned = Table(
        "Assigned",
        ("wave", "action", "units", "randomised", "outcomes", *(["absent"] if absent else [])),
        [
            (
                row.wave,
                named[row.action],
                row.units,
                row.randomised,
                row.outcomes,
                *([row.absent] if absent else []),
            )
            for row in status.actions
        ],
        words=("action",),
        keys=2,
    )
    metrics = [metrics_table(status.metrics)] if status.metrics else []
    limits = [limits_table(status.limits)] if status.limits else []
    return [waves, assigned, *limits, _observed(status, named), *metrics]


def metrics_table(metrics: Sequence[MetricRow]) -> Table:
    """Return metrics by action, with what became of their guardrails."""
    columns = ("metric", "action", "outcomes", "missing", "mean", "wanted", "verdict")
    rows = [
        (
            row.metric if row.unit is None else f"{row.metric} ({row.unit})",
            row.action,
            row.count,
            row.missing,
            row.mean,
            _wanted(row),
            {None: "", True: "passed", False: "VIOLATED"}[row.passed],
        )
        for row in metrics
    ]
    # Units that count as absent have a reward, and no metrics.
    title, words = "Metrics (of recorded outcomes)", ("metric", "action", "wanted", "verdict")
    return Table(title, columns, rows, words=words, keys=2)


def _wanted(row: MetricRow) -> str:
    """Say what a metric should be: within its guardrail, or more, or less."""
    if row.guardrail is None:
        return "more" if row.direction == "max" else "less"
    return f"at {'least' if row.direction == 'max' else 'most'} {cell(row.guardrail)}"


def violations(metrics: Sequence[MetricRow]) -> list[str]:
    """Say which guardrails were violated, one line each."""
    return [
        f"Guardrail VIOLATED: {row.metric} of {row.action} has the mean "
        f"{measured(_mean(row), row.unit)} over {counted(row.count, 'recorded outcome')}; "
        f"{_wanted(row)} is wanted."
        for row in metrics
        if row.passed is False
    ]


def _mean(row: MetricRow) -> str:
    """Return a mean with few digits, but enough to tell it from its guardrail."""
    mean, bound = row.mean or 0.0, row.guardrail or 0.0
    few = number(mean, 3)
    return few if few != number(bound, 3) else cell(mean)


def wave_list(waves: Sequence[int]) -> str:
    """Return waves as they are listed.

    >>> wave_list([2]), wave_list([1, 2, 3])
    ('wave 2', 'waves 1, 2 and 3')
    """
    *first, last = map(str, waves)
    return f"waves {', '.join(first)} and {last}" if first else f"wave {last}"


def measured(text: str, unit: str | None) -> str:
    """Return a number with its unit of measure.

    >>> measured("12.5", "EUR"), measured("12.5", None)
    ('12.5 EUR', '12.5')
    """
    return text if unit is None else f"{text} {unit}"


def absences(recorded: int, absent: int, value: float | None, unit: str | None) -> str:
    """Say how many outcomes were recorded, and how many counted by declaration.

    >>> absences(120, 180, 0.0, "EUR")
    '120 recorded, 180 counted as 0 EUR because absent'
    """
    counts = "as declared" if value is None else f"as {measured(cell(value), unit)}"
    return f"{recorded:,} recorded, {absent:,} counted {counts} because absent"


def _state(status: "Status", wave: "WaveStatus") -> str:
    if wave.closed:
        return "closed"
    if status.condition != "open":
        return status.condition
    return "open" if wave.wave == status.wave else "to come"


def _observed(status: "Status", named: dict[str, str]) -> Table:
    columns = ["wave", "action", "mean", "weighted mean"]
    title = "Observed" if status.unit is None else f"Observed ({status.reward} in {status.unit})"
    rows: list[list[Any]] = [
        [row.wave, named[row.action], mean, weighted]
        for row, mean, weighted in zip(
            status.actions,
            alike([row.mean for row in status.actions]),
            alike([row.weighted for row in status.actions]),
            strict=True,
        )
    ]
    if status.control:
        columns.append("minus control")
        differences = alike([row.difference for row in status.actions])
        for difference, shown in zip(differences, rows, strict=True):
            shown.append(difference)
    return Table(title, tuple(columns), rows, words=("action",), keys=2)


def remarks(status: "Status") -> list[str]:
    """Return what stands below the tables: rows that are held, notes, and the state's hash."""
    said = [*violations(status.metrics), *(f"Note: {note}." for note in status.notes)]
    if status.proposal is not None:
        said.append(proposal_text(status.proposal, status.unit))
    if absent := sum(wave.absent for wave in status.waves):
        recorded = sum(wave.observed for wave in status.waves)
        told = absences(recorded, absent, status.absent_value, status.unit)
        said.insert(0, f"Outcomes: {told}.")
    if status.conflicts or status.quarantined:
        said.insert(
            0,
            "Held rows so far (resubmitted rows count again): "
            f"{counted(status.conflicts, 'conflict')}, {status.quarantined:,} quarantined.",
        )
    said[:0] = status.worth
    if status.clipped:
        said.insert(0, f"{clipped_text(status.clipped)} so far.")
    if status.policy.get("first") == "uniform" and status.actions:
        said.append(FIRST_WAVE)
    return [
        *said,
        f"Hash of all units, decisions, outcomes and estimates: {status.state}",
    ]


def clipped_text(clipped: dict[str, int]) -> str:
    """Return how many values of each column were moved to a bound, without a full stop.

    >>> clipped_text({"age": 1, "spend": 1200})
    'Clipped to the bounds of the first wave or the declared range: age 1, spend 1,200'
    """
    counts = ", ".join(f"{name} {count:,}" for name, count in clipped.items())
    return f"Clipped to the bounds of the first wave or the declared range: {counts}"


def events_table(name: str, events: list[Event]) -> Table:
    """Return everything that was done, in short."""
    return Table(
        f"Events of {name}",
        ("event", "kind", "when (UTC)", "who", "why", "what"),
        [(e.sequence, e.kind, _time(e.at), e.who, e.why, what_was_done(e)) for e in events],
        words=("kind", "when (UTC)", "who", "why", "what"),
    )


def what_was_done(event: Event) -> str:
    """Return an event's counts, and what was changed, from what to what."""
    changed = [
        f"{change['what']} from {_listed(change['from'])} to {_listed(change['to'])}"
        for change in event.payload.get("changes", ())
    ]
    if event.kind == "unmask":
        changed = [f"{code} is {name}" for code, name in event.payload["codes"].items()]
    if event.kind == "continue":
        changed = [f"after wave {event.payload['wave']}"]
    return "; ".join([*([_counts(event.counts)] if event.counts else []), *changed])


def _listed(value: Any) -> str:
    if value is None:
        return "none"
    return ", ".join(map(cell, value)) if isinstance(value, list) else cell(value)


def _time(at: str) -> str:
    return at[:19].replace("T", " ")


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} ({_counts(value)})" if isinstance(value, dict) else f"{name} {cell(value)}"
        for name, value in counts.items()
    )
