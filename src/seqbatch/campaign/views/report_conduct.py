"""The report's sections on how the campaign was run, its limits, and its methods."""

from collections import Counter
from collections.abc import Iterator, Sequence

from seqbatch.campaign.decide.logged_waves import planned_waves
from seqbatch.campaign.decide.stopping import inflation_text, look_text, stopping_said
from seqbatch.campaign.record.current_situation import condition_text
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.spec.constraints_text import constraints_said
from seqbatch.campaign.spec.spec import rule_name
from seqbatch.campaign.views.findings_text import placed
from seqbatch.campaign.views.history import (
    CHANGES,
    events_table,
    unblinded_text,
    what_was_done,
)
from seqbatch.campaign.views.report_pictures import Share, shares
from seqbatch.campaign.views.report_results import Material
from seqbatch.campaign.views.signatures import signature_table
from seqbatch.display import cell, counted, percent
from seqbatch.document import Heading, Items, Part, Picture, Section, Table
from seqbatch.policies.registry import text

# ----------------------------------------------------------------------
# Eligibility, limits and masking: as declared, and as used.


Row = tuple[int | str, str, float, float | None, float]


def constraints_declared(of: Material) -> Iterator[str]:
    """Yield the declared eligibility rules, limits and masking in words."""
    if of.created.masked:
        said = "is masked: until it is unmasked, its actions have only codes"
        if any(event.kind == "unmask" for event in of.events):
            said = "was masked: until it was unmasked, its actions had only codes"
        yield f"The campaign {said}. The key has the fingerprint {of.created.key}."
    created = of.created
    yield from constraints_said(created.spec, over_waves=bool(created.balanced_since))


def limits_used(of: Material) -> Table | None:
    """Return every limit and its use, by wave and in total."""
    rows = [*_in_waves(of), *_in_all(of)]
    if not rows:
        return None
    shown = [
        (wave, what, cell(used), "" if most is None else cell(most), cell(least) if least else "")
        for wave, what, used, most, least in rows
    ]
    columns = ("wave", "limit of", "used", "at most", "at least")
    return Table("Limits and their use", columns, shown, words=("limit of",), keys=2)


def _in_waves(of: Material) -> Iterator[Row]:
    spec = of.now.spec
    given = {(row.wave, row.action): row.units for row in of.status.actions}
    for wave in sorted({wave for wave, _ in given}):
        for name, capacity in spec.capacity.items():
            if capacity.each_wave is not None or capacity.at_least:
                used = given.get((wave, name), 0)
                yield wave, name, used, capacity.each_wave, capacity.at_least
        if spec.budget is not None and spec.budget.each_wave is not None:
            yield wave, "budget", _cost(of, given, wave), spec.budget.each_wave, 0


def _in_all(of: Material) -> Iterator[Row]:
    spec = of.now.spec
    given = {(row.wave, row.action): row.units for row in of.status.actions}
    for name, capacity in spec.capacity.items():
        if capacity.total is not None:
            yield "all", name, of.now.in_all.get(name, 0), capacity.total, 0
    if spec.budget is not None and spec.budget.total is not None:
        cost = sum(_cost(of, given, wave) for wave in {wave for wave, _ in given})
        yield "all", "budget", cost, spec.budget.total, 0


def _cost(of: Material, given: dict[tuple[int, str], int], wave: int) -> float:
    return sum(action.cost * given.get((wave, action.name), 0) for action in of.now.actions)


# ----------------------------------------------------------------------
# Methods in plain words, with references and assumptions.


REFERENCES = (
    "Han, Zhou, Hu, Blanchet, Glynn, Ye and Zhou (first version 2020), Sequential batch learning "
    "in finite-action linear contextual bandits: the campaign in waves.",
    "Luedtke and van der Laan (2016), Statistical inference for the mean outcome under a possibly "
    "non-unique optimal treatment strategy: weights that keep intervals right.",
    "Zhang, Janson and Murphy (2020), Inference for batched bandits; Hadad, Hirshberg, Zhan, Wager "
    "and Athey (2021), Confidence intervals for policy evaluation in adaptive experiments: why "
    "ordinary intervals fail here, and what to do.",
    "Lan and DeMets (1983), Discrete sequential boundaries for clinical trials; Maurer and Bretz "
    "(2013), Multiple testing in group sequential trials using graphical approaches: looks.",
    "Dunnett (1955), A multiple comparison procedure for comparing several treatments with a "
    "control; Holm (1979), A simple sequentially rejective multiple test procedure.",
)


def methods(of: Material) -> Section:
    """Return the section on how the numbers were computed."""
    level = percent(of.found.level)
    said = [
        f"In {level} of campaigns like this one, {level} intervals contain the true value. An "
        "action is called clearly better or worse if its interval does not include 0 (no "
        "difference).",
        "Each unit's probability of each action was logged before its outcome was known. A unit "
        "that was unlikely to get its action counts more, because it represents similar units that "
        "got another one; a model of the outcomes removes the variation that the features explain. "
        "The estimate is right if either the probabilities or the model are right (it is called "
        "doubly robust).",
        "A campaign that learns gives more units to actions that did well, sometimes by luck. "
        "Therefore each wave is estimated separately, and counts by its size. The estimates are "
        "averages over the campaign's units, and stay right if effects or the level of outcomes "
        "change between waves.",
        f"Intervals have {level} coverage: by Student's t, or, if most outcomes are 0, by limits "
        "that allow for few and unequal events. If several actions are compared, the intervals on "
        f"the first page are wider: all of them hold at once ({_together(of)}). Multiple "
        "p-values are corrected by Holm's method.",
        "An action is recommended if its interval over the campaign is on the better side, the "
        "latest waves alone agree, and its lift did not change between waves, or is clear in the "
        "latest waves alone.",
        "The gain of the rule to run next is estimated from the last wave by cross-fitting: each "
        "fifth of it is evaluated with a rule fitted to the rest. It is approximate.",
    ]
    if of.found.differences:
        said.append(
            "How different the actions are is estimated from all waves together. For the average "
            f"{of.found.measure.of} it is how far what an action brings lies from what all "
            "bring, typically; for a feature, how much its values add to that. A feature with a "
            "small number matters little for who should get what."
        )
    if of.found.outcomes < of.found.units:
        said.append(
            "Missing outcomes are corrected for by the action and the features of their units."
        )
    parts: list[Part] = [
        *said,
        *placed(of.found)["methods"],
        Heading("References"),
        Items(REFERENCES),
    ]
    return Section("methods", "How the numbers were computed", parts)


def _together(of: Material) -> str:
    """Return the method for simultaneous comparisons; see Asking.lifts."""
    fixed = all(wave.share is not None for wave in planned_waves(of.events))
    plain = fixed and not of.now.spec.eligible and not of.found.stopping.looks
    return "Dunnett" if plain else "Bonferroni"


def assumed(of: Material) -> Section:
    """Return the section on assumptions and what would break them."""
    title = "What was assumed, and what would break it"
    rows = list(of.found.assumptions)
    if not rows:
        return Section("assumed", title, ["Nothing was estimated, so nothing is assumed."])
    columns = ("assumed", "what would break it")
    table = Table(f"{counted(len(rows), 'assumption')}", columns, rows, words=columns)
    return Section("assumed", title, [table])


# ----------------------------------------------------------------------
# The conduct of the campaign: plan, allocation, looks, and the record.


#: How policies choose that do not learn.
CHOSEN = {
    "UniformRandom": "every action is equally likely in every wave.",
    "FixedAction": "all units get the same action, except those assigned at random.",
}
#: How many events a page lists; of a longer history, only the first and the last.
MOST_EVENTS = 60


def planned_and_done(of: Material) -> Section:
    """Return the section on the plan and on what happened, wave by wave."""
    parts: list[Part] = [Items(list(_planned(of))), _waves(of)]
    if (limits := limits_used(of)) is not None:
        parts.append(limits)
    changes = [_told(event) for event in of.events if event.kind in CHANGES]
    changes += [
        f"Wave {event.payload['wave']} was closed with a reason: {event.why}"
        for event in of.events
        if event.kind == "close" and event.why
    ]
    if said := unblinded_text(of.events):
        parts.append(said)
    parts += [Heading("Changes during the campaign"), Items(changes)] if changes else [
        "Nothing was changed during the campaign."]  # fmt: skip
    return Section("conduct", "What was planned, and what happened", parts)


def _planned(of: Material) -> Iterator[str]:
    spec, now, measure = of.created.spec, of.created, of.found.measure
    names = ", ".join(action.name for action in now.actions)
    control = "none was declared" if spec.control is None else spec.control
    if now.masked:
        control = "named in the key"
    yield f"Actions: {names}. Control: {control}."
    yield f"Objective: {measure.head}; {measure.wanted}."
    if spec.grid.calendar:
        yield (
            f"{counted(len(now.sizes), 'wave')}, ended by the calendar; {of.units(sum(now.sizes))} "
            "were expected in total."
        )
    else:
        sizes = ", ".join(f"{size:,}" for size in now.sizes)
        yield f"{counted(len(now.sizes), 'wave')} of {sizes} {measure.of}s."
    usual = "later waves favour the actions that did best for similar units so far."
    yield (
        f"How actions are chosen: {CHOSEN.get(now.policy['kind'], usual)} In full: "
        f"{text(now.policy)}."
    )
    yield (
        f"Always assigned at random: {percent(spec.randomised)} of {measure.of}s; for the others, "
        f"every action has a probability of at least {percent(now.floor)}."
    )
    yield from constraints_declared(of)
    yield from stopping_said(now) or ["No rule for early stopping was declared."]


def _waves(of: Material) -> Table:
    assigned, closed = _times(of.events)
    absent = any(wave.absent for wave in of.status.waves)
    rows = [
        [wave.wave, "open-ended" if wave.size is None else wave.size, wave.assigned, wave.observed,
         *([wave.absent] if absent else []), _state(of, wave.wave, wave.closed),
         assigned.get(wave.wave, ""), closed.get(wave.wave, "")]
        for wave in of.status.waves
    ]  # fmt: skip
    words = ("state", "first assigned (UTC)", "closed (UTC)")
    columns = ("wave", f"planned {of.found.measure.of}s", "got an action", "outcomes",
               *(["counted as absent"] if absent else []), *words)  # fmt: skip
    return Table("Wave by wave: planned and done", columns, rows, words=words)


def _times(events: Sequence[Event]) -> tuple[dict[int, str], dict[int, str]]:
    """Return when each wave's first units were assigned, and when it was closed."""
    assigned: dict[int, str] = {}
    closed: dict[int, str] = {}
    wave = 1
    for event in events:
        if event.kind == "assign":
            assigned.setdefault(wave, event.at[:10])
        elif event.kind == "close":
            closed[wave] = event.at[:10]
            wave += 1
    return assigned, closed


def _state(of: Material, wave: int, closed: bool) -> str:
    now = of.now
    if closed:
        return "closed, not learned from" if wave in now.skipped else "closed"
    if now.condition != "open":
        return condition_text(now.condition)
    return "open" if wave == now.wave else "to come"


def _told(event: Event) -> str:
    done = what_was_done(event)
    what = {
        "amend": "amended",
        "abort": "ended early",
        "stop": "stopped by its rule",
        "continue": "continued despite the stopping rule",
        "unmask": "unmasked",
        "erase": "units erased",
        "look": "look of the key holder",
        "unblind": "unblinded in an emergency",
    }
    why = f" Reason: {event.why}" if event.why else ""
    return f"{event.at[:10]}, {what[event.kind]}{': ' + done if done else ''}.{why}"


def allocation(of: Material) -> Section:
    """Return the section on each action's share by wave."""
    sizes = Counter[int]()
    for row in of.status.actions:
        sizes[row.wave] += row.units
    given = [Share(row.wave, row.action, row.units / sizes[row.wave])
             for row in of.status.actions if sizes[row.wave]]  # fmt: skip
    if not given:
        return Section("allocation", "Who got which action", ["No unit has an action yet."])
    rows = [
        [row.wave, row.action, row.units, f"{row.units / sizes[row.wave]:.1%}",
         row.randomised]
        for row in of.status.actions
        if sizes[row.wave]
    ]  # fmt: skip
    columns = ("wave", "action", f"{of.found.measure.of}s", "share", "of them at random")
    table = Table("Who got which action", columns, rows, words=("action",), keys=2)
    told = "; ".join(
        f"wave {wave}: "
        + ", ".join(f"{one.action} {one.share:.0%}" for one in given if one.wave == wave)
        for wave in sizes
    )
    picture = Picture(
        lambda: shares(given),
        f"Share of each action by wave. {told}.",
        "The share of each wave that got each action: the stronger the colour, the larger.",
    )
    return Section("allocation", "Who got which action", [picture, table])


def stopping(of: Material) -> Section:
    """Return the section on looks: boundary, statistic, verdict; or the cost of having no rule."""
    found = of.found.stopping
    parts: list[Part] = []
    if found.looks:
        parts.append(
            "After a wave, each action's lift over the control is divided by its standard error. A "
            "lift beyond the boundary counts as shown; the boundaries keep the error of all looks "
            "together at the declared level. The repeated intervals of an action hold at all looks "
            "together, with the declared error. Intervals of lifts on the first screen also allow "
            "for the looks; all other intervals are for a single look."
        )
        parts += [look_text(found.looks[-1]), *placed(of.found)["stopping"]]
    elif found.rule != "none":
        parts.append(
            f"The declared rule ({rule_name(found.rule)}) has not been applied yet: no look so far."
        )
    elif found.inflated is not None:
        parts.append(inflation_text(found.inflated))
    else:
        parts.append("No rule for early stopping was declared.")
    if found.gone_on:
        parts.append(
            Items([f"After wave {wave} it continued despite the stopping rule. Reason: {why}"
                   for wave, why in found.gone_on.items()])
        )  # fmt: skip
    return Section("stopping", "Whether to stop", parts)


def audit(of: Material) -> Section:
    """Return a summary of the events, and the purpose of the hashes."""
    kinds = Counter(event.kind for event in of.events)
    done = ", ".join(f"{kind} {count:,}" for kind, count in kinds.items())
    amended = [
        [event.sequence, event.at[:10], event.who, change["what"], _listed(change["from"]),
         _listed(change["to"]), event.why]
        for event in of.events
        for change in event.payload.get("changes", ())
    ]  # fmt: skip
    columns = ("event", "when", "who", "what", "from", "to", "why")
    parts: list[Part] = [f"{counted(len(of.events), 'event')} in total: {done}."]
    if (signed := signature_table(of.events)) is not None:
        parts.append(signed)
    if amended:
        parts.append(Table("Amendments", columns, amended, words=columns[1:]))
    parts += [
        events_table(of.found.name, list(of.events)).shortened(MOST_EVENTS),
        f"Hash of event {of.now.sequence}, the newest: {of.now.hash}\n"
        "It depends on every event before it. Keep it elsewhere, as a seal: if anything up to here "
        "is changed, removed or inserted later, the hash changes.",
        f"Hash of all units, decisions, outcomes and estimates: {of.status.state}",
        "Verify the campaign to check every hash and to compute every estimate and decision again.",
    ]
    return Section("audit", "What is on record", parts)


def _listed(value: object) -> str:
    return ", ".join(map(cell, value)) if isinstance(value, list) else cell(value)
