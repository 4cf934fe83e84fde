"""rehearse(): run a spec many times under several truths, in parallel, and sum up."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

import pyarrow as pa

from seqbatch.campaign.files.reading import ReadingOptions, source_of
from seqbatch.campaign.record.memory_store import MemoryStore
from seqbatch.campaign.record.rehearsal_file import RehearsalFile
from seqbatch.campaign.rehearsal.operating_characteristics import characteristics, facts, known
from seqbatch.campaign.rehearsal.population import World, population
from seqbatch.campaign.rehearsal.rehearsed_campaign import Rehearsing
from seqbatch.campaign.rehearsal.truth import Truth, read_truth
from seqbatch.campaign.rehearsal.undeclared_truths import truths_of
from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.spec.toml import check_spec, read_spec
from seqbatch.campaign.steps.create import NO_STORE, Prepared, prepare
from seqbatch.campaign.steps.earlier import Sources
from seqbatch.campaign.views.rehearsal import Rehearsal
from seqbatch.core import arguments
from seqbatch.core.threads import one_thread
from seqbatch.engine import Engine
from seqbatch.errors import InvalidSpecError
from seqbatch.simulation.resumable_tasks import Progress, Row, run_tasks

#: How many campaigns one task runs at most, and how many units unless one campaign has more.
PART, PART_UNITS = 20, 100_000

Declared = str | Path | Mapping[str, Any]


def rehearse(
    spec: str | Path | Mapping[str, Any] | Spec,
    *,
    units: Any = None,
    truths: Sequence[Declared] = (),
    campaigns: int = 1_000,
    seed: int = 0,
    jobs: int = 1,
    engine: str | Engine = "local",
    parts: str | Path | None = None,
    report: Callable[[Progress], None] | None = None,
    sources: Sources | None = None,
    **reading: Unpack[ReadingOptions],
) -> Rehearsal:
    """Run a spec many times on simulated outcomes, through the code of real campaigns.

    Nothing is created. Under each truth, as many campaigns are run: always where no action differs
    from the control, with the effect of the spec's plan if it has one, and under the declared
    truths.

    Parameters
    ----------
    spec
        The spec, as for :meth:`Campaign.create`.
    units
        A file or table of units to draw from, as for :meth:`Campaign.assign`; without it, units are
        made from the spec's features.
    truths
        TOML files or plain values that say what outcomes are like under each action.
    campaigns
        How many campaigns to run under each truth.
    seed
        The seed; the same seed gives the same rehearsal.
    jobs, engine
        How many processes to use, and whose; see :func:`seqbatch.engine.open_engine`.
    parts
        A folder for finished parts: an interrupted rehearsal goes on from there.
    report
        Called after every part.
    sources
        Where to find the earlier campaign that the spec names, if any; without it, in files.
    reading
        How to read the file of units.

    Examples
    --------
    >>> spec = {
    ...     "name": "spring", "actions": ["none", "mail"], "grid": {"sizes": [100, 100]},
    ...     "metrics": {"visit": {"kind": "yes/no"}}, "objective": {"maximise": "visit"},
    ... }
    >>> made = rehearse(spec, truths=[{"none": 0.2, "mail": 0.6}], campaigns=4)
    >>> [truth["name"] for truth in made.data["truths"]]
    ['no action differs', 'declared']
    """
    arguments.integer("campaigns", campaigns, at_least=1)
    arguments.integer("seed", seed, at_least=0)
    prepared = rehearsable(spec, sources or NO_STORE)
    drawn = population(prepared.now, None if units is None else source_of(units, **reading))
    declared = [read_truth(one, prepared.now, drawn.levels) for one in truths]
    every = truths_of(prepared.now, declared)
    rehearsing = Rehearsing(prepared, drawn, seed)
    some = max(1, min(PART, PART_UNITS // sum(prepared.now.sizes)))
    tasks = [
        RehearsedPart(rehearsing, truth, place, range(first, min(first + some, campaigns)))
        for first in range(0, campaigns, some)
        for place, truth in enumerate(every)
    ]
    with ExitStack() as stack:
        out = Path(parts or stack.enter_context(TemporaryDirectory()))
        table = run_tasks(
            tasks, out=out, declaration=_declaration(rehearsing, every, campaigns), jobs=jobs,
            engine=engine, report=report,
        )  # fmt: skip
    found: list[list[dict[str, Any]]] = [[] for _ in every]
    for row in table.sort("truth", "number").iter_rows(named=True):
        found[row["truth"]].append(json.loads(row["facts"]))
    return Rehearsal(RehearsalFile(_data(rehearsing, every, campaigns, found)))


def rehearsable(
    spec: str | Path | Mapping[str, Any] | Spec, sources: Sources = NO_STORE
) -> Prepared:
    """Return the checked spec with open results; refuse one that cannot be rehearsed."""
    declared, folder = prepare(spec, sources=sources), None
    if isinstance(spec, str | Path):
        folder = Path(spec).parent
        spec = read_spec(spec)
    elif not isinstance(spec, Spec):
        spec = check_spec(spec)
    if refused := refusals(spec):
        raise InvalidSpecError(
            f"spec: it cannot be rehearsed. {' '.join(refused)}", code="no-rehearsal"
        )
    if not spec.masked and spec.interim == "open":
        return declared
    # Names in place of codes, results that anybody may see, and looks that need no key: nothing
    # else differs.
    stopping = spec.stopping.model_copy(update={"looks": None})
    named = prepare(
        spec.model_copy(update={"masked": False, "interim": "open", "stopping": stopping}),
        sources=sources,
        folder=folder,
    )
    return Prepared(named.now, named.payload, named.state, design=declared.design)


def refusals(spec: Spec) -> list[str]:
    """Return why a spec cannot be rehearsed; empty if it can."""
    reasons = [
        (
            spec.rows == "elsewhere",
            'With rows = "elsewhere", a database decides and adds up. Leave rows out for the '
            "rehearsal: the decisions follow the same rule.",
        ),
        (
            spec.cluster is not None and spec.unit != (spec.cluster,),
            f"Units of one {spec.cluster} resemble one another, and how much is not known. Leave "
            "cluster out for the rehearsal, and expect wider intervals.",
        ),
    ]
    return [why for holds, why in reasons if holds]


def _declaration(rehearsing: Rehearsing, truths: Sequence[Truth], campaigns: int) -> list[Any]:
    """Return what decides the results of a rehearsal."""
    units = rehearsing.units.given
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, units.schema) as writer:
        writer.write_table(units)
    content = hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest()
    spec, history = rehearsing.prepared.design, rehearsing.prepared.now.history
    sums = [] if history is None else [history["fingerprint"]]
    return [spec, content, [truth.plain() for truth in truths], campaigns, rehearsing.seed, *sums]


@dataclass(frozen=True, eq=False)
class RehearsedPart:
    """Some campaigns under one truth."""

    rehearsing: Rehearsing
    truth: Truth
    place: int
    numbers: range

    @property
    def name(self) -> str:
        """Its name in the run."""
        return f"truth {self.place}, campaigns {self.numbers.start} to {self.numbers.stop - 1}"

    def __call__(self) -> list[Row]:
        """Run the campaigns; return the facts about each."""
        shared, rows = self.rehearsing, list[Row]()
        world = World.of(self.truth, shared.prepared.now, shared.units)
        # Once for all campaigns: each analysis would look for the libraries with threads.
        with one_thread():
            for number in self.numbers:
                found = facts(shared.run(world, number, MemoryStore()))
                rows.append({"truth": self.place, "number": number, "facts": json.dumps(found)})
        return rows


def _data(
    rehearsing: Rehearsing,
    truths: Sequence[Truth],
    campaigns: int,
    found: Sequence[Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    """Return everything about a rehearsal, as plain values."""
    now = rehearsing.prepared.now
    measure = Measure.of_objective(now.spec)
    names = [action.name for action in now.actions]
    limits = {"actions": names, "limits": dict(_limits(now.spec))}
    return {
        "campaign": now.name,
        "design": rehearsing.prepared.design,
        "seed": rehearsing.seed,
        "campaigns": campaigns,
        "units": rehearsing.units.source,
        "actions": names,
        "control": now.spec.control or names[0],
        "sizes": list(now.sizes),
        "stopping": now.spec.stopping.model_dump(mode="json"),
        "measure": {"column": measure.column, "scale": measure.scale, "of": measure.of},
        "truths": [
            {
                **truth.plain(),
                "null": truth.null,
                "true means": _true_means(World.of(truth, now, rehearsing.units)),
                **characteristics(own, limits),
            }
            for truth, own in zip(truths, found, strict=True)
        ],
    }


def _true_means(world: World) -> dict[str, list[float | None]]:
    """Return each action's true mean in each wave."""
    waves = [world.means(wave) for wave in range(1, len(world.now.sizes) + 1)]
    names = [action.name for action in world.now.actions]
    return {name: [known(own[place]) for own in waves] for place, name in enumerate(names)}


def _limits(spec: Spec) -> list[tuple[str, tuple[str | None, float]]]:
    """Return capacities and the budget: the action (None for all) and the limit, by name."""
    made: list[tuple[str, tuple[str | None, float]]] = []
    for name, one in spec.capacity.items():
        if one.each_wave is not None:
            made.append((f"{name}, each wave", (name, one.each_wave)))
        if one.total is not None:
            made.append((f"{name}, total", (name, one.total)))
    if spec.budget is not None:
        if spec.budget.each_wave is not None:
            made.append(("budget, each wave", (None, spec.budget.each_wave)))
        if spec.budget.total is not None:
            made.append(("budget, total", (None, spec.budget.total)))
    return made
