"""The quality study: campaigns of all methods in all worlds, and the replay of a real log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import SeedSequence

from benchmarks.quality.methods import METHODS
from benchmarks.quality.players import Player, Setting
from benchmarks.quality.worlds import WORLDS, hillstrom
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.lab import Options
from seqbatch.planning import plan
from seqbatch.simulation import run_tasks
from seqbatch.simulation.resumable_tasks import Row, Task, fingerprint

if TYPE_CHECKING:
    import polars as pl

#: Campaigns in one task.
PART = 4
#: A branch of the seed for what decides actions.
DRAWS = 1
Ends = tuple[int, ...]

# ----------------------------------------------------------------------
# Grids.


WAVES = (2, 3, 5, 10)
GRIDS = ("equal", "doubling", "planned")
#: What all methods are compared on.
COMMON = (3, "doubling")


def ends_of(units: int, waves: int, grid: str) -> Ends:
    """Return where equal or doubling waves end.

    >>> ends_of(70, 3, "doubling"), ends_of(70, 3, "equal")
    ((10, 30, 70), (23, 47, 70))
    """
    shares = 2.0 ** np.arange(waves) if grid == "doubling" else np.ones(waves)
    ends = np.rint(units * shares.cumsum() / shares.sum()).astype(int)
    # No wave is empty, however small the first should be.
    least = np.arange(1, waves + 1)
    return tuple(np.maximum(ends, least).tolist())


@dataclass(frozen=True)
class Planning:
    """The plan of someone who knows a world's effect and noise."""

    world: str
    waves: int

    @property
    def name(self) -> str:
        """Its name in the run."""
        return f"{self.world}/{self.waves}/{fingerprint(WORLDS[self.world])}"

    def __call__(self) -> list[Row]:
        """Plan; no sizes where the planner refuses."""
        world = WORLDS[self.world]
        units = world.draw(0, 0)
        try:
            made = plan(
                units=world.units, actions=world.actions, features=units.rows.shape[1] - 1,
                effect=units.effect, noise=units.noise, batches=self.waves,
                max_batches=self.waves, quick=True, compare=False,
            )  # fmt: skip
        except InvalidArgumentError:
            return [{"world": self.world, "waves": self.waves, "ends": list[int]()}]
        return [{"world": self.world, "waves": self.waves, "ends": list(made.grid.ends)}]


# ----------------------------------------------------------------------
# Campaigns.


Answer = Callable[[slice, Integers], tuple[Floats, Bools]]


def play(player: Player, rows: Floats, draws: Floats, ends: Ends, answer: Answer) -> Integers:
    """Play a campaign; return its actions.

    Parameters
    ----------
    player
        Who chooses.
    rows, draws
        The units, and one number in [0, 1) for each.
    ends
        Where waves end.
    answer
        Says what a wave's units earned under their actions, and of which units that is known.
    """
    actions = np.empty(ends[-1], dtype=np.int64)
    for start, end in pairwise((0, *ends)):
        wave = slice(start, end)
        actions[wave] = player.choose(rows[wave], draws[wave])
        if end < ends[-1]:
            player.learn(rows[wave], actions[wave], *answer(wave, actions[wave]))
    return actions


def draws_of(seed: int, number: int, units: int) -> Floats:
    """Return the numbers that decide actions in the campaign with this number."""
    return np.random.default_rng(SeedSequence(seed, spawn_key=(DRAWS, number))).random(units)


def own_seed(seed: int, number: int) -> int:
    """Return a seed, never 0, for methods with draws of their own."""
    return 1_000 * seed + number + 1


#: An action that is best for more than so many of the last wave's units, and gets fewer than so
#: many of them, is locked out.
BEST_FOR, GIVEN_TO = 0.3, 0.05


def locked(means: Floats, actions: Integers) -> bool:
    """Say whether the last wave hardly gives an action that is best for many of its units."""
    K = means.shape[1]
    best = np.bincount(means.argmax(axis=1), minlength=K) / len(means)
    given = np.bincount(actions, minlength=K) / len(means)
    return bool(((best > BEST_FOR) & (given < GIVEN_TO)).any())


@dataclass(frozen=True)
class Part:
    """Some campaigns of one method in one world."""

    world: str
    method: str
    waves: int
    grid: str
    ends: Ends
    seed: int
    first: int
    count: int

    @property
    def name(self) -> str:
        """Its name in the run: another world or method has another."""
        what = _digest(self.world, self.method)
        return f"{what}/{self.grid} {self.ends}/{self.seed}/{self.first} and {self.count}"

    def __call__(self) -> list[Row]:
        """Play; return what each campaign earned."""
        return [self._campaign(self.first + place) for place in range(self.count)]

    def _campaign(self, number: int) -> Row:
        world = WORLDS[self.world]
        units = world.draw(self.seed, number)
        setting = Setting(
            self.ends, world.actions, units.rows.shape[1], world.yes_or_no, units.noise,
            own_seed(self.seed, number),
        )  # fmt: skip
        every = np.arange(len(units))

        def answer(wave: slice, actions: Integers) -> tuple[Floats, Bools]:
            return units.outcomes[every[wave], actions], units.known(wave)

        start = process_time()
        player = METHODS[self.method].make(setting)
        draws = draws_of(self.seed, number, len(units))
        actions = play(player, units.rows, draws, self.ends, answer)
        seconds = process_time() - start
        last = slice(self.ends[-2], None)
        return {
            "world": self.world, "method": self.method, "waves": self.waves, "grid": self.grid,
            "number": number, "score": units.score(actions),
            "locked": locked(units.means[last], actions[last]), "seconds": seconds,
        }  # fmt: skip


@cache
def _digest(world: str, method: str) -> str:
    return f"{world} {method} {fingerprint((WORLDS[world], METHODS[method].make))}"


# ----------------------------------------------------------------------
# The replay of Hillstrom's log: outcomes are known of customers whom the log gave the same action.


@dataclass(frozen=True)
class Replay:
    """Some replays of the log by one method."""

    outcome: str
    method: str
    seed: int
    first: int
    count: int

    @property
    def name(self) -> str:
        """Its name in the run."""
        what = fingerprint(METHODS[self.method].make)
        return f"{self.outcome}/{self.method} {what}/{self.seed}/{self.first} and {self.count}"

    def __call__(self) -> list[Row]:
        """Replay; return the mean outcome of each."""
        return [
            {"outcome": self.outcome, "method": self.method, "number": number,
             "value": self._value(number)}
            for number in range(self.first, self.first + self.count)
        ]  # fmt: skip

    def _value(self, number: int) -> float:
        log = hillstrom(self.outcome)
        order = np.random.default_rng(SeedSequence(self.seed, spawn_key=(2, number)))
        shuffled = order.permutation(len(log))
        rows, rewards, logged = log.features[shuffled], log.rewards[shuffled], log.actions[shuffled]
        K, ends = len(log.names), ends_of(len(log), *COMMON)
        known = tuple(end // K for end in ends)
        noise, own = float(rewards.std()), own_seed(self.seed, number)
        setting = Setting(known, K, rows.shape[1], True, noise, own)

        def answer(wave: slice, actions: Integers) -> tuple[Floats, Bools]:
            return rewards[wave], logged[wave] == actions

        draws = draws_of(self.seed, number, len(log))
        actions = play(METHODS[self.method].make(setting), rows, draws, ends, answer)
        same = actions == logged
        waves = [slice(start, end) for start, end in pairwise((0, *ends))]
        earned = [rewards[wave][same[wave]].mean() * (wave.stop - wave.start) for wave in waves]
        return float(sum(earned) / len(log))


# ----------------------------------------------------------------------
# The study.


@dataclass(frozen=True)
class Quality:
    """What to run.

    Parameters
    ----------
    worlds, methods
        Names.
    seed
        Fresh numbers for all campaigns.
    seeds
        Campaigns of each method in each world and grid.
    log
        Whether to replay Hillstrom's log, too.
    common
        Whether to play on the common grid alone.
    """

    worlds: Sequence[str]
    methods: Sequence[str]
    seed: int = 29
    seeds: int = 12
    log: bool = True
    common: bool = False

    def run(self, options: Options) -> "Results":
        """Play what is not played yet."""
        planning = [Planning(world, waves) for waves in WAVES for world in self.worlds]
        plans = None if self.common else _done(planning, options, "plans")
        campaigns = _done(self.parts(plans), options, "campaigns")
        replays = _done(self.replays(), options, "replays") if self.log else None
        return Results(plans, campaigns, replays)

    def parts(self, plans: "pl.DataFrame | None") -> list[Part]:
        """Return all campaigns: the common grid first, and the others if there are plans."""
        found = []
        designs = [COMMON] if plans is None else _designs()
        for waves, grid in sorted(designs, key=lambda one: one != COMMON):
            for world in self.worlds:
                ends = ends_of(WORLDS[world].units, waves, grid)
                if grid == "planned" and plans is not None:
                    planned = plans.filter(world=world, waves=waves)["ends"].item().to_list()
                    ends = tuple(planned) or ends_of(WORLDS[world].units, waves, "doubling")
                for method in self.methods:
                    found += self._parts(world, method, waves, grid, ends)
        return found

    def _parts(self, world: str, name: str, waves: int, grid: str, ends: Ends) -> list[Part]:
        method = METHODS[name]
        if method.yes_or_no and not WORLDS[world].yes_or_no:
            return []
        # Only policies of this package run on the other grids.
        if (waves, grid) != COMMON and method.kind != "seqbatch":
            return []
        return [
            Part(world, name, waves, grid, ends, self.seed, first, count)
            for first, count in _cut(self.seeds, method.seeds)
        ]

    def replays(self) -> list[Replay]:
        """Return all replays."""
        return [
            Replay(outcome, method, self.seed, first, count)
            for outcome in ("visit", "conversion")
            for method in self.methods
            for first, count in _cut(self.seeds, METHODS[method].seeds)
        ]


@dataclass(frozen=True, eq=False)
class Results:
    """Tables of the campaigns, and of the plans and the replays of the log if there were any."""

    plans: "pl.DataFrame | None"
    campaigns: "pl.DataFrame"
    replays: "pl.DataFrame | None"


def _done(tasks: Sequence[Task], options: Options, folder: str) -> "pl.DataFrame":
    # The names of tasks tell what is done: a new method leaves the others as they are.
    return run_tasks(
        tasks, out=options.out / folder, declaration=folder, jobs=options.jobs,
        engine=options.engine, report=options.report,
    )  # fmt: skip


def _designs() -> list[tuple[int, str]]:
    return [(waves, grid) for waves in WAVES for grid in GRIDS]


def _cut(seeds: int, most: int | None) -> list[tuple[int, int]]:
    """Return the numbers of campaigns in parts: first and count."""
    seeds = min(seeds, most or seeds)
    return [(first, min(PART, seeds - first)) for first in range(0, seeds, PART)]
