"""Assignment of the units of many trials at once, by the rules of their policies."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqbatch.core import Estimate, Problem, Statistics
from seqbatch.core.arrays import AnyArray, Array, Floats, namespace
from seqbatch.policies.base import BasePolicy, State, TryingState
from seqbatch.policies.rule import Rule
from seqbatch.simulation.device.backend import Backend

# ----------------------------------------------------------------------
# The states of many trials as one state: each trial's models are further cells of the same sums.
#
# Policies estimate each cell separately. One call of their own code closes a batch of all trials.
# Cells are ordered by trial, then by model.


def gathered(state: State, trials: int) -> State:
    """Return one state for several trials, each of which starts in the given state."""
    models = state.problem.models

    def repeated(values: AnyArray) -> AnyArray:
        # Estimates may hold several draws, each with all models: trials come between the two.
        shape = (len(values) // models, 1, models, *values.shape[1:])
        copies = np.repeat(values.reshape(shape), trials, axis=1)
        return copies.reshape(len(values) * trials, *values.shape[1:])

    joint = replace(
        state,
        evidence=tuple(
            Statistics(*map(repeated, (part.gram, part.moment, part.squares, part.count)))
            for part in state.evidence
        ),
        stale=tuple(map(repeated, state.stale)),
        estimates=tuple(
            Estimate(*map(repeated, (part.theta, part.root, part.rank, part.condition)))
            for part in state.estimates
        ),
    )
    return (
        replace(joint, untried=repeated(joint.untried)) if isinstance(joint, TryingState) else joint
    )


def errors(state: State, policy: BasePolicy, thetas: Floats) -> Floats:
    """Return every trial's |theta_hat - theta| over all models, given (trials, models, dim)."""
    off = policy.summary(state).theta.reshape(thetas.shape) - thetas
    lengths: Floats = np.sqrt((off**2).sum(axis=(1, 2)))
    return lengths


def least_eigenvalues(gram: Floats, models: int) -> Floats:
    """Return the smallest eigenvalue of every trial's design, over all models."""
    least: Floats = np.linalg.eigvalsh(gram).min(axis=1).reshape(-1, models).min(axis=1)
    return least


# ----------------------------------------------------------------------
# Assign the units of many trials at once, by the rules of their policies.


@dataclass(frozen=True)
class Rules:
    """The rules of all trials for one batch: one kind, with an axis of trials in front."""

    kind: str
    action: int
    theta: Array
    root: Array
    gamma: float
    among: Array
    random_ties: bool
    contested: bool = False
    blind: Array = None

    @classmethod
    def of(cls, rule: Rule, models: int, backend: Backend, shape: Floats) -> "Rules":
        """Return the rule of a joint state, split by trial, as arrays of the backend.

        A unit's context is its vector times the source's `shape`. Theta and root are multiplied by
        the shape here, once, and applied to vectors.
        """
        theta = root = among = blind = None
        # Other kinds do without scores.
        if rule.kind in ("highest", "shares"):
            thetas = rule.theta[None] if rule.samples is None else rule.samples
            draws = thetas.reshape(len(thetas), -1, models, thetas.shape[-1])
            theta = backend.array(reshaped(np.swapaxes(draws, 0, 1), shape))
        if rule.kind == "highest" and rule.root is not None:
            roots = rule.root.reshape(-1, models, *rule.root.shape[1:])
            root = backend.array(reshaped(roots, shape[:, None]))
        if rule.kind == "highest" and rule.among is not None:
            among = backend.array(rule.among.reshape(-1, models))
        if rule.untried is not None:
            # All units may get all actions: those of a trial with an untried one are random.
            untried = rule.untried.reshape(-1, models).sum(axis=1, keepdims=True)
            blind = backend.array(untried > 0)
        return cls(
            kind=rule.kind,
            action=rule.action,
            theta=theta,
            root=root,
            gamma=rule.gamma,
            among=among,
            random_ties=rule.ties == "random",
            contested=rule.contested,
            blind=blind,
        )

    @classmethod
    def fixed(cls, action: int) -> "Rules":
        """Return the rule that gives every unit this action."""
        return cls("fixed", action, None, None, 0.0, None, random_ties=False)

    @property
    def greedy(self) -> bool:
        """Whether each unit gets the action of highest mean, the lowest one of equals."""
        whole = self.root is None and self.among is None and self.blind is None
        return self.kind == "highest" and whole and not self.random_ties

    def actions(self, x: Array, draws: Callable[[], Array], problem: Problem) -> Array:
        """Return the action of each unit, shape (trials, n).

        Parameters
        ----------
        x
            Contexts, shape (trials, n, 1 or K, dim).
        draws
            Returns one number in [0, 1) for each unit, shape (trials, n).
        problem
            The problem, with the layout of contexts.
        """
        known = self._by_kind(x, draws, problem)
        if self.blind is None:
            return known
        return namespace(x).where(self.blind, at_random(draws(), problem), known)

    def _by_kind(self, x: Array, draws: Callable[[], Array], problem: Problem) -> Array:
        xp = namespace(x)
        if self.kind == "fixed":
            return xp.full(x.shape[:2], self.action, dtype=xp.int64, device=x.device)
        if self.kind == "uniform":
            return at_random(draws(), problem)
        if self.kind == "shares":
            shares = best_shares(x, self.theta, problem, self.random_ties)
            return picked(contested(shares) if self.contested else shares, draws())
        criterion = means(x, self.theta[:, 0], problem)
        if self.root is not None:
            criterion = criterion + self.gamma * widths(x, self.root, problem)
        if self.among is not None:
            criterion = xp.where(self.among[:, None, :], criterion, -math.inf)
        return among_equals(criterion, draws()) if self.random_ties else lowest(criterion)


def at_random(draws: Array, problem: Problem) -> Array:
    """Return any of all actions by each draw, equally likely."""
    xp = namespace(draws)
    wanted = xp.astype(draws * problem.actions, xp.int64)
    return xp.where(wanted < problem.actions, wanted, problem.actions - 1)


def reshaped(parameters: Floats, shape: Floats) -> Floats:
    """Return parameters that act on vectors as the given ones act on vectors times `shape`.

    The last axis of both is the axis of a vector; the shape has an axis of trials in front.
    """
    turned = np.swapaxes(shape, -1, -2)
    ahead = parameters.ndim - turned.ndim
    return parameters @ turned.reshape(turned.shape[0], *[1] * ahead, *turned.shape[1:])


def greedy_actions(x: Array, rules: Sequence[Rules]) -> list[Array]:
    """Return the actions of several greedy rules in the shared layout, from one pass over contexts.

    Reading contexts takes most of the time of a product with one vector: more vectors cost little.
    """
    xp = namespace(x)
    thetas = xp.stack([rule.theta[:, 0, 0] for rule in rules], axis=-1)
    scores = x.reshape(x.shape[0], -1, x.shape[3]) @ thetas
    actions = xp.argmax(scores.reshape(*x.shape[:3], len(rules)), axis=2)
    return [actions[..., number] for number in range(len(rules))]


def means(x: Array, theta: Array, problem: Problem) -> Array:
    """Return <x, theta> for every trial, unit and action, given theta (trials, models, dim)."""
    xp = namespace(x)
    if problem.layout == "block":
        return x[:, :, 0, :] @ xp.matrix_transpose(theta)
    if problem.layout == "shared":
        flat = x.reshape(x.shape[0], -1, x.shape[3])
        return (flat @ theta[:, 0, :, None]).reshape(x.shape[:3])
    return xp.stack(
        [(x[:, :, a, :] @ theta[:, a, :, None])[..., 0] for a in range(problem.actions)], axis=-1
    )


def widths(x: Array, root: Array, problem: Problem) -> Array:
    """Return |root x| for every trial, unit and action, given root (trials, models, dim, dim)."""
    xp = namespace(x)
    turned = xp.matrix_transpose(root)

    def length(rows: Array, model: int) -> Array:
        seen = rows @ turned[:, model]
        return xp.sqrt(xp.sum(seen * seen, axis=-1))

    if problem.layout == "shared":
        return length(x.reshape(x.shape[0], -1, x.shape[3]), 0).reshape(x.shape[:3])
    slots = x.shape[2]
    columns = [length(x[:, :, min(a, slots - 1), :], a) for a in range(problem.actions)]
    return xp.stack(columns, axis=-1)


def best_shares(x: Array, thetas: Array, problem: Problem, split_ties: bool) -> Array:
    """Return the share of thetas (trials, samples, models, dim) under which each action is best."""
    xp, K = namespace(x), problem.actions
    trials, units, samples = x.shape[0], x.shape[1], thetas.shape[1]
    wins = xp.zeros((trials, units, K), dtype=xp.float64, device=x.device)
    numbers = xp.arange(K, device=x.device)
    for sample in range(samples):
        scores = means(x, thetas[:, sample], problem)
        if split_ties:
            tied = xp.astype(scores == xp.max(scores, axis=-1, keepdims=True), xp.float64)
            wins = wins + tied / xp.sum(tied, axis=-1, keepdims=True)
        else:
            wins = wins + xp.astype(lowest(scores)[..., None] == numbers, xp.float64)
    return wins / samples


def contested(shares: Array) -> Array:
    """Return p (1 - p) divided by its sum, for each unit's shares p; p where one of them is 1."""
    xp = namespace(shares)
    doubt = shares * (1 - shares)
    total = doubt[..., 0]
    for action in range(1, shares.shape[-1]):
        total = total + doubt[..., action]
    sure = (xp.max(shares, axis=-1) == 1) | (total <= 0)
    scaled = doubt / xp.where(sure, xp.ones_like(total), total)[..., None]
    return xp.where(sure[..., None], shares, scaled)


def lowest(criterion: Array) -> Array:
    """Return the lowest of the actions of highest criterion."""
    return namespace(criterion).argmax(criterion, axis=-1)


def among_equals(criterion: Array, draws: Array) -> Array:
    """Return one of the actions of highest criterion, each equally likely."""
    xp = namespace(criterion)
    tied = criterion == xp.max(criterion, axis=-1, keepdims=True)
    equals = xp.sum(xp.astype(tied, xp.int64), axis=-1)
    wanted = xp.minimum(xp.astype(draws * xp.astype(equals, xp.float64), xp.int64), equals - 1)
    passed = actions = xp.zeros_like(wanted)
    for action in range(criterion.shape[-1]):
        passed = passed + xp.astype(tied[..., action], xp.int64)
        actions = actions + xp.astype(passed <= wanted, xp.int64)
    return actions


def picked(probabilities: Array, draws: Array) -> Array:
    """Return the action in whose share of [0, 1) the unit's draw falls."""
    xp, K = namespace(probabilities), probabilities.shape[-1]
    sums = [probabilities[..., 0]]
    for action in range(1, K):
        sums.append(sums[-1] + probabilities[..., action])
    scaled = draws * sums[-1]
    actions = xp.zeros(draws.shape, dtype=xp.int64, device=draws.device)
    possible = actions
    for action in range(K):
        actions = actions + xp.astype(scaled >= sums[action], xp.int64)
        # A draw beyond the sum, by rounding, gets the last possible action.
        possible = xp.where(probabilities[..., action] > 0, action, possible)
    return xp.minimum(actions, possible)
