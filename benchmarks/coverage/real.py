"""Coverage of what findings print: the same worlds, run as real campaigns in a store."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.random import Generator, SeedSequence

from benchmarks.coverage.cells import NORMAL, Cell, amounts, yes
from benchmarks.coverage.measures import (
    ACTION,
    BY_SHARES,
    BY_SIZE,
    CONTROL,
    JOINT,
    NEXT,
    OVER_CONTROL,
    OVER_RANDOM,
    VALUE,
    Flag,
    Printed,
)
from benchmarks.coverage.study import (
    MOSTLY,
    added_up,
    counted_row,
    happened_row,
    held,
    valid,
)
from benchmarks.coverage.worlds import (
    Simulated,
    draw,
    features,
    lost,
    population,
    rates,
    uniform,
)
from benchmarks.progress import paragraph
from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.logged_waves import marks_of
from seqbatch.campaign.record.store import Store
from seqbatch.core.arrays import Floats
from seqbatch.inference import Rows
from seqbatch.lab.experiment import Claim, Options
from seqbatch.simulation import run_tasks
from seqbatch.simulation.resumable_tasks import Row
from seqbatch.storage import open_store

if TYPE_CHECKING:
    import polars as pl

# ----------------------------------------------------------------------
# The settings: other numbers than those of the study.


@dataclass(frozen=True, kw_only=True)
class RealCell:
    """A setting in which real campaigns are run.

    Parameters
    ----------
    world
        What units and outcomes are like, and how the campaign is designed.
    stopping
        The declared stopping rule; a campaign ends when the rule says so.
    less
        Whether a lower outcome is better.
    """

    world: Cell
    stopping: str = "none"
    less: bool = False

    def describe(self) -> str:
        """Return the setting in words."""
        more = ["lower is better"] if self.less else []
        more += [f"{self.stopping} looks"] if self.stopping != "none" else []
        return "; ".join([self.world.describe(), *more])

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of such a campaign, without name and seed."""
        policies: dict[str, dict[str, Any]] = {
            "greedy": {"kind": "SBPE"},
            "Thompson": {"kind": "ThompsonSampling", "scale": 1.0, "last": "same"},
        }
        return {
            "unit": "unit",
            "actions": [f"a{action}" for action in range(self.world.actions)],
            "control": "a0",
            "policy": policies[self.world.policy],
            "randomised": self.world.randomised,
            "floor": self.world.floor,
            "grid": {"sizes": self.world.counts},
            "metrics": {
                "y": {"kind": "yes/no" if self.world.outcome.kind == "yes/no" else "amount"}
            },
            "objective": {"minimise" if self.less else "maximise": "y"},
            "required_outcomes": 0.1,
            "features": {"intercept": True, "numeric": {"x1": "raw", "x2": "raw"}},
            "stopping": {"rule": self.stopping},
        }


THIRDS, LATE = (0.32, 0.32, 0.36), (0.2, 0.3, 0.5)


def real_cells() -> list[RealCell]:
    """Return all settings."""
    some = replace(NORMAL, units=1_500, sizes=THIRDS)
    return [
        RealCell(world=replace(some, lifts=((0.12,), (0.3,)), slope=0.25)),
        RealCell(world=replace(some, policy="Thompson", sizes=LATE)),
        RealCell(world=Cell(outcome=yes(0.045), lifts=((0.5,),), units=5_000, sizes=LATE)),
        RealCell(world=Cell(outcome=yes(0.12), lifts=((-0.35,), (0.0,)), units=3_000), less=True),
        RealCell(world=Cell(outcome=yes(0.02), units=1_500, sizes=LATE)),
        RealCell(world=Cell(outcome=amounts(0.05, 1.0), lifts=((0.5,),), units=8_000,
                            policy="Thompson")),
        RealCell(world=replace(some, lifts=((0.6, 0.25, 0.0),) * 2, level=(0.0, 0.5, 1.1))),
        RealCell(world=replace(some, missing="in opposite directions by action", slope=0.3)),
        RealCell(world=replace(some, sizes=LATE), stopping="obrien-fleming"),
        RealCell(world=replace(some, lifts=((0.25,), (0.0,))), stopping="pocock"),
    ]  # fmt: skip


# ----------------------------------------------------------------------
# One campaign: create, assign, record, close, and what findings say then.


@dataclass(frozen=True, eq=False)
class RealRun:
    """A campaign that was run.

    Parameters
    ----------
    cell
        Its setting.
    found
        Its findings, as JSON has them.
    waves
        Its units, from the assignments that were returned and the outcomes that were recorded.
    """

    cell: RealCell
    found: Mapping[str, Any]
    waves: list[Rows]

    @property
    def simulated(self) -> Simulated:
        """The same campaign as the study analyses it, with features on the scale of findings."""
        own = [replace(rows, features=self.standardised(rows.features)) for rows in self.waves]
        # The truth of the value as run, which alone needs the rules, is not asked for.
        return Simulated(self.cell.world, own, [uniform(self.cell.world.actions)] * len(own))

    def standardised(self, x: Floats) -> Floats:
        """Return features on the scale of the first wave, as findings use them."""
        first = self.waves[0].features
        made = x.copy()
        made[:, 1:] = (x - first.mean(axis=0))[:, 1:] / first[:, 1:].std(axis=0, ddof=1)
        return made


def run_campaign(cell: RealCell, store: Store, name: str, random: Generator) -> RealRun:
    """Run a campaign in a store, until its end or until its stopping rule ends it."""
    seed = int(random.integers(2**31))
    campaign = Campaign.create({"name": name, "seed": seed, **cell.spec}, store=store)
    waves = []
    for wave in range(cell.world.waves):
        waves.append(_wave(cell.world, campaign, wave, random))
        campaign.close()
        if campaign.situation().stop:
            break
    return RealRun(cell, campaign.findings().plain(), waves)


def _wave(cell: Cell, campaign: Campaign, wave: int, random: Generator) -> Rows:
    """Assign a wave and record its outcomes; return its units."""
    import polars as pl

    size = cell.counts[wave]
    x = features(cell, wave, random, size)
    names = [f"{wave}-{place}" for place in range(size)]
    units = pl.DataFrame({"unit": names, "x1": x[:, 1], "x2": x[:, 2]})
    assigned = pl.DataFrame(campaign.assign(units).table)
    actions = assigned["action"].str.slice(1).cast(pl.Int64).to_numpy()
    p = assigned.select(f"p(a{action})" for action in range(cell.actions)).to_numpy()
    outcomes = draw(cell, random, rates(cell, wave, x)[np.arange(size), actions], actions)
    gone = lost(random, cell.missing, x, actions)
    campaign.record(pl.DataFrame({"unit": names, "y": outcomes}).filter(~pl.Series(gone)))
    return Rows.of(x, actions, p, np.where(gone, nan, outcomes), marks=marks_of(names))


# ----------------------------------------------------------------------
# What its findings print, beside the truth.


GIVEN, GONE, FEW = "give", "give, though the lift is gone", "too few events"
STOPPED = "stopped early"


def printed_intervals(run: RealRun) -> list[Printed]:
    """Return the intervals in the findings beside the truth, which is NaN where it is not known."""
    true, found = run.simulated, run.found
    last = run.cell.world.actions - 1
    sizes = true.sizes / true.sizes.sum()
    means: Floats = sizes @ np.array([true.means(wave) for wave in range(len(run.waves))])
    lift, whole = found["lifts"][-1], found["run"]
    asked = [
        (CONTROL, found["means"][0]["interval"], means[0]),
        (ACTION, found["means"][last]["interval"], means[last]),
        (BY_SHARES, lift["same"], means[last] - means[0]),
        (VALUE, whole["value"], nan),
        (OVER_CONTROL, whole["over_actions"]["a0"], nan),
        (OVER_RANDOM, whole["over_random"], nan),
        (NEXT, found["rule"]["gain"], _true_gain(run)),
    ]
    if run.cell.stopping == "none":
        asked.append((BY_SIZE, lift["interval"], means[last] - means[0]))
    return [*(_printed(*one) for one in asked), _joint(run, means)]


def _printed(name: str, interval: Mapping[str, Any], truth: float) -> Printed:
    low, high = (nan if interval[end] is None else float(interval[end]) for end in ("low", "high"))
    return Printed(name, low, high, float(truth))


def _joint(run: RealRun, means: Floats) -> Printed:
    """Return the lift that misses most, of the intervals that findings show first."""
    made = [
        _printed(JOINT, lift["together"], means[action] - means[0])
        for action, lift in enumerate(run.found["lifts"], start=1)
    ]
    return max(made, key=lambda one: max(one.truth - one.high, one.low - one.truth))


def _true_gain(run: RealRun) -> float:
    """Return the gain of the rule to run next, in the population of the last wave."""
    last = len(run.waves) - 1
    x, net = population(run.cell.world, last), run.simulated.net(last)
    known = run.found["rule"]["coefficients"]
    scores = np.full(net.shape, np.inf if run.cell.less else -np.inf)
    for action in range(net.shape[1]):
        if f"a{action}" in known:
            scores[:, action] = run.standardised(x) @ np.array(known[f"a{action}"])
    wanted = scores.argmin(axis=1) if run.cell.less else scores.argmax(axis=1)
    return float((net[np.arange(len(x)), wanted] - net[:, 0]).mean())


def verdict_flags(run: RealRun) -> list[Flag]:
    """Return what the recommendation says, and whether the lift that it praises is gone."""
    said = run.found["recommendation"]
    given = said["code"] in ("give", "give-changed")
    flags = [Flag(GIVEN, given), Flag(FEW, said["code"] == "too-few-events")]
    if given:
        waves = said["latest_waves"]
        lift = run.simulated.lift(int(said["action"][1:]), range(waves[0] - 1, waves[-1]))
        flags.append(Flag(GONE, (-lift if run.cell.less else lift) < 1e-9))
    else:
        flags.append(Flag(GONE, happened=False))
    if run.cell.stopping != "none":
        flags.append(Flag(STOPPED, len(run.waves) < run.cell.world.waves))
    return flags


# ----------------------------------------------------------------------
# All settings.


REAL_CAMPAIGNS, QUICK_REAL, PART = 400, 4, 20


@dataclass(frozen=True)
class RealPart:
    """Some campaigns of one setting, in a store of their own."""

    cell: RealCell
    number: int
    campaigns: int

    @property
    def name(self) -> str:
        """Its name in the run."""
        return f"{self.cell.describe()}/{self.number} of {self.campaigns}"

    def __call__(self) -> list[Row]:
        """Run; return how often each interval was printed and missed."""
        printed: dict[str, list[Printed]] = defaultdict(list)
        flags: dict[str, list[Flag]] = defaultdict(list)
        key = crc32(self.cell.describe().encode())
        with TemporaryDirectory() as folder:
            store = open_store(Path(folder) / "campaigns.db")
            for place in range(self.campaigns):
                seeds = SeedSequence(28, spawn_key=(key, self.number, place))
                run = run_campaign(self.cell, store, f"c{place}", np.random.default_rng(seeds))
                for one in printed_intervals(run):
                    if not np.isnan(one.truth):
                        printed[one.name].append(one)
                for flag in verdict_flags(run):
                    flags[flag.name].append(flag)
            store.close()
        cell = self.cell.describe()
        return [
            *({"cell": cell, **counted_row(name, many)} for name, many in printed.items()),
            *({"cell": cell, **happened_row(name, many)} for name, many in flags.items()),
        ]


def run_real(options: Options, settings: Sequence[RealCell] | None = None) -> "pl.DataFrame":
    """Run the campaigns of all settings, in parts; return their counts."""
    import polars as pl

    settings = real_cells() if settings is None else settings
    campaigns = options.trials or (QUICK_REAL if options.quick else REAL_CAMPAIGNS)
    parts = [
        RealPart(cell, number, min(PART, campaigns - number * PART))
        for number in range(-(-campaigns // PART))
        for cell in settings
    ]
    table = run_tasks(
        parts, out=options.out, declaration=[astuple(cell) for cell in settings],
        jobs=options.jobs, engine=options.engine, report=options.report,
    )  # fmt: skip
    constant = {cell.describe() for cell in settings if cell.world.constant}
    return added_up(table).with_columns(
        # By shares, a lift is another average if it changes.
        claimed=(pl.col("quantity") != BY_SHARES) | pl.col("cell").is_in(list(constant))
    )


#: Intervals whose truth is known, in the order of the table.
READ = (CONTROL, ACTION, BY_SIZE, JOINT, BY_SHARES, NEXT)


def real_claims(table: "pl.DataFrame") -> list[Claim]:
    """Say whether the intervals that findings print cover as the study's do."""
    return [claim for name in READ for claim in held(table, name)]


# ----------------------------------------------------------------------
# The section of the page.


HEAD = "## Through real campaigns"
TEXT = """{head}

Written by `python -m benchmarks.coverage --real`. Here the numbers are read from the JSON of
`findings`: each campaign is created from a spec, and its waves are assigned, recorded and closed in
an SQLite store. {campaigns:,} campaigns or more in each of {cells} settings; with a stopping
rule, a campaign ends when the rule says so.

{claims}

Coverage in the settings that print an interval in {mostly:.0%} or more of their campaigns;
`real_cells` in `benchmarks/coverage/real.py` declares them.

{intervals}

{verdicts}
"""


def section(table: "pl.DataFrame") -> str:
    """Return the section of the page."""
    claims = real_claims(table)
    failed = [f"{one.source} ({one.text})" for one in claims if one.held is False]
    kept = sum(one.held is True for one in claims)
    said = f"Of {len(claims)} claims {kept} are held"
    open_ones = "; the others need more campaigns to be decided" if kept < len(claims) else ""
    said += f", and {len(failed)} fail: {'; '.join(failed)}" if failed else ", and none fails"
    said += f"{open_ones}."
    campaigns = table["campaigns"].min()
    return TEXT.format(
        head=HEAD,
        campaigns=campaigns,
        cells=table["cell"].n_unique(),
        claims=said,
        mostly=MOSTLY,
        intervals=_intervals(table),
        verdicts=_verdicts(table),
    )


def _intervals(table: "pl.DataFrame") -> str:
    """Return a row for each interval: the settings that mostly print it, and their coverage."""
    cells = table["cell"].n_unique()
    lines = ["| interval | settings | coverage |", "| --- | --- | --- |"]
    for name in READ:
        shares = valid(table, name)["share"].to_list()
        covered = f"{min(shares):.3f} to {max(shares):.3f}" if shares else "-"
        lines.append(f"| {name} | {len(shares)} of {cells} | {covered} |")
    return "\n".join(lines)


def _verdicts(table: "pl.DataFrame") -> str:
    """Say how often verdicts recommend too late, find too few events, and campaigns stop."""
    shares = {
        name: [row["above"] / row["campaigns"] for row in own.iter_rows(named=True)]
        for name in (GONE, FEW, STOPPED)
        if len(own := table.filter(quantity=name))
    }
    said = (
        "The verdict recommends an action whose lift is gone in the latest waves in at most "
        f"{max(shares[GONE]):.3f} of a setting's campaigns, and finds too few events in at most "
        f"{max(shares[FEW]):.3f}."
    )
    if stopped := shares.get(STOPPED):
        said += f" With a stopping rule {min(stopped):.3f} to {max(stopped):.3f} stop early."
    return "\n".join(paragraph(said)[:-1])
