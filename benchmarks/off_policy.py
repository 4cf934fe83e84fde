"""Off-policy estimators on adaptive logs, and beside Open Bandit Pipeline's on its own data.

`python -m benchmarks.off_policy` measures coverage and writes docs/off-policy.md. With `--obp`,
where `pip install --no-deps obp==0.4.1` and torch are installed, it compares estimates on the data
that come with that package, and replaces that section alone.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.progress import paragraph, say
from seqbatch import grids
from seqbatch.core import Contexts
from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.environments import GeneralEnvironment
from seqbatch.inference import Evaluation, Rows, evaluate
from seqbatch.inference.doubly_robust_scores import OutcomeModel, score
from seqbatch.inference.evidence import gathered
from seqbatch.inference.return_model import ReturnModel
from seqbatch.policies import EpsilonGreedy, Policy, ThompsonSampling
from seqbatch.policies.base import State
from seqbatch.policies.choice import pick
from seqbatch.policies.rule import Ranking
from seqbatch.simulation import simulate

COMMAND, PAGE = "python -m benchmarks.off_policy", Path("docs/off-policy.md")
BESIDE = "## Beside Open Bandit Pipeline"
TRIALS, FLOOR, SIZES = 1_000, 0.1, (100, 500)
NAMES = (
    "inverse probability", "self-normalised", "doubly robust", "switch", "shrunk", "clipped",
    "adaptively weighted", "contextually weighted",
)  # fmt: skip

# ----------------------------------------------------------------------
# Coverage on adaptive logs.


@dataclass(frozen=True, kw_only=True)
class Shop(GeneralEnvironment):
    """Three actions whose means rise by half of `effect` each; one of two features matters."""

    effect: float = 0.0

    def contexts(self, random: np.random.Generator, size: int) -> AnyArray:
        """Return a constant and two standard normal features."""
        return np.column_stack([np.ones(size), random.standard_normal((size, 2))])

    def means(self, contexts: Floats, times: AnyArray, truth: Any) -> AnyArray:  # noqa: ARG002
        """Return the means; those of clicks are around 10%."""
        x = contexts[:, 1]
        base = 0.1 + 0.05 * x.clip(-1, 1) if self.family == "bernoulli" else x
        return base[:, None] + self.effect * np.arange(3) / 2


@dataclass(frozen=True, kw_only=True)
class FlooredThompson(ThompsonSampling):
    """Thompson sampling, but a share of the units gets a random action."""

    def choose(
        self, state: State, contexts: Contexts, ranking: Ranking, draws: Floats
    ) -> tuple[Integers, Floats]:
        """Mix the probabilities with equal ones."""
        _, shares = super().choose(state, contexts, ranking, draws)
        return pick((1 - FLOOR) * shares + FLOOR / 3, draws)


#: Each world with the value of giving every unit the last action.
WORLDS = {
    "equal actions": (Shop(dim=3, actions=3), 0.0),
    "the last is best": (Shop(dim=3, actions=3, effect=0.3), 0.3),
    "clicks, equal": (Shop(dim=3, actions=3, family="bernoulli"), 0.1),
}
LOGGING: dict[str, Policy] = {
    "greedy": EpsilonGreedy(epsilon=FLOOR, first="uniform", ties="random"),
    "Thompson": FlooredThompson(samples=64, first="uniform"),
}


def judged(log: Rows) -> Evaluation:
    """Evaluate the last action for every unit."""
    return evaluate(log, 2)


def coverage(trials: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| units a wave | world | logged by | " + " | ".join(NAMES) + " |"
    yield "|---" * (3 + len(NAMES)) + "|"
    for size in SIZES:
        for world, (environment, truth) in WORLDS.items():
            for by, policy in LOGGING.items():
                grid = grids.uniform(units=5 * size, batches=5)
                made = []
                for seed in range(trials):
                    run = simulate(
                        policy, environment, grid, seed=seed, keep_log=True, learn_last=False
                    )
                    found = judged(run.rows).estimates.values() if run.rows else ()
                    made.append(
                        [(one.low <= truth <= one.high, one.high - one.low) for one in found]
                    )
                covered, width = np.moveaxis(np.array(made, dtype=np.float64).mean(axis=0), -1, 0)
                say(f"{size}, {world}, {by}")
                cells = " | ".join(
                    f"{one:.1%}, {far:.3f}" for one, far in zip(covered, width, strict=True)
                )
                yield f"| {size} | {world} | {by} | {cells} |"


def page(trials: int) -> list[str]:
    """Return the page, without the section beside the other program."""
    lines = ["# Can a log show what another policy would earn?", "", f"Written by `{COMMAND}`.", ""]
    lines += paragraph(
        "`inference.evaluate` estimates what another policy would earn. Here the log is adaptive: "
        "five waves, the first one random, then greedy or Thompson sampling, with a random action "
        f"for {FLOOR:.0%} of the units. The policy to evaluate gives every unit the last action. "
        "Each cell has the share of 95% intervals that cover its true value, and their mean width, "
        f"over {trials:,} logs: the standard error of a coverage of 95% is "
        f"{100 * (0.95 * 0.05 / trials) ** 0.5:.1f} points."
    )
    lines += [*coverage(trials), ""]
    lines += paragraph(
        "*Adaptively weighted* is the one to read: also where waves are small and clicks are rare, "
        "and mostly narrower than *doubly robust*. *Contextually weighted* is narrower still, by "
        "up to a fifth; with 100 units a wave it may cover two or three points too little. It "
        "needs what each wave's rule would have given every unit: logs of `Learner` and `simulate` "
        "have it (`Rows.by_wave`). *Switch*, *shrunk* and *clipped* weights (`limit=10`) have the "
        "least noise; their intervals leave out the bias of the model, which they trust where "
        "weights are large, and are marked as not valid there."
    )
    return lines


# ----------------------------------------------------------------------
# Beside Open Bandit Pipeline, on the data that come with it.


def small_data(behaviour: str) -> tuple[dict[str, Any], Rows]:
    """Return that package's own 10,000 rows of a policy as it reads them, and as rows."""
    from obp.dataset import OpenBanditDataset

    class Plain(OpenBanditDataset):  # type: ignore[misc]
        """Its own features need an older pandas; reading needs none."""

        def pre_process(self) -> None:
            affinity = self.data.columns.str.contains("affinity")
            self.context = self.data.loc[:, affinity].to_numpy(dtype=float)
            self.action_context = self.item_context.to_numpy()

    given = Plain(behavior_policy=behaviour, campaign="all").obtain_batch_bandit_feedback()
    actions, n, K = given["action"], given["n_rounds"], given["n_actions"]
    # Only the chance of the item shown is known: the rest is divided among the others.
    taken = given["pscore"]
    p = np.repeat(((1 - taken) / (K - 1))[:, None], K, axis=1)
    p[np.arange(n), actions] = taken
    place = np.eye(3)[given["position"]][:, 1:]
    features = np.column_stack([np.ones(n), place - place.mean(axis=0)])
    return given, Rows.of(features, actions, p, given["reward"].astype(float))


def left_out_predictions(log: Rows) -> Floats:
    """Return the model's predictions, without the unit itself for the action that it got."""
    evidence = gathered(log)
    model = OutcomeModel.fitted(evidence)
    predicted = model.predictions(log)
    residuals = score(log, model, ReturnModel.by_action(evidence).of(log)).residuals
    predicted[np.arange(log.count), log.actions] = log.outcomes - residuals
    return predicted


def beside() -> list[str]:
    """Return the section: both programs' estimates of a policy on the same rows."""
    from obp import ope

    lines = [BESIDE, ""]
    lines += paragraph(
        "Version 0.4.1, on the 10,000 rows of each policy that come with it (Open Bandit Dataset, "
        "all campaigns; 80 items, clicks). The policy to evaluate shows items 0 to 9 with "
        "probability 0.05 each, and the others equally often. Both programs get the same "
        "predictions of the outcome; `limit=2`."
    )
    found = []
    for behaviour in ("random", "bts"):
        given, rows = small_data(behaviour)
        wanted = np.tile([0.05] * 10 + [0.5 / 70] * 70, (rows.count, 1))
        ours, limit = evaluate(rows, wanted, limit=2.0).estimates, 2.0
        theirs = ope.OffPolicyEvaluation(
            bandit_feedback={**given, "position": None},
            ope_estimators=[
                ope.InverseProbabilityWeighting(),
                ope.SelfNormalizedInverseProbabilityWeighting(),
                ope.DoublyRobust(),
                ope.SwitchDoublyRobust(tau=limit),
                ope.DoublyRobustWithShrinkage(lambda_=limit**2),
            ],
        ).estimate_policy_values(
            action_dist=wanted[:, :, None],
            estimated_rewards_by_reg_model=left_out_predictions(rows)[:, :, None],
        )
        for name, other in zip(list(ours)[:5], theirs.values(), strict=True):
            mine = ours[name].estimate
            say(f"{behaviour}, {name}: {1e3 * mine:.6f} and {1e3 * other:.6f}")
            found.append((mine, other))
    said = (
        f"In clicks per 1,000, {sum(f'{mine:.9f}' == f'{other:.9f}' for mine, other in found)} of "
        f"{len(found)} estimates (inverse probability, self-normalised, doubly robust, switch and "
        "shrunk, of logs by the random and by the `bts` policy) agree to six decimals."
    )
    return [*lines, *paragraph(said)[:-1]]


def main() -> None:
    """Write the page, or its section beside the other program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--obp", action="store_true")
    given = parser.parse_args()
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    top, mark, section = before.partition(BESIDE)
    lines = [top.rstrip(), "", *beside()] if given.obp else [*page(given.trials), mark + section]
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
