"""Any model of rewards: whatever has fit(X, y) and predict(X), with exploration around it.

After each batch the model is fitted anew to all outcomes so far. The first batch is uniformly
random, and so is every other one before there is an outcome.

*Probabilities are exact.* Exploration by draws uses a fixed number of them: a unit's random number
picks one draw, and each action's probability is the share of the draws under which it is best.
`Decision.errors` says how far such shares may be from the probability that the action is best.

*Guarantee.* None: it depends on the model.
"""

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, ClassVar, Literal, get_args
from weakref import WeakKeyDictionary

import numpy as np

from seqbatch.core import Contexts, Problem, arguments
from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import Feedback
from seqbatch.policies.choice import highest, pick, uniformly
from seqbatch.policies.rule import Decision

Explore = Literal["greedy", "epsilon", "bootstrap", "posterior", "ucb"]
Models = Literal["own", "one"]
#: Significant digits of predictions: a model's last digits depend on how many rows it predicts.
DIGITS = 10


@dataclass(frozen=True, eq=False)
class ModelData:
    """Outcomes in the order in which they were learned: vectors, actions and rewards."""

    vectors: Floats
    actions: Integers
    rewards: Floats

    def plus(self, other: "ModelData") -> "ModelData":
        """Return these outcomes, then others."""
        if not len(other.rewards):
            return self
        names = [field.name for field in fields(self)]
        both = ((getattr(self, name), getattr(other, name)) for name in names)
        return ModelData(*(np.concatenate(pair) for pair in both))

    def none(self) -> "ModelData":
        """Return no outcomes."""
        return ModelData(self.vectors[:0], self.actions[:0], self.rewards[:0])


@dataclass(frozen=True)
class ModelState:
    """The state of a :class:`ModelPolicy`.

    Parameters
    ----------
    problem
        The problem that the policy was started with.
    batch
        The number of the open batch, from 1.
    known
        The outcomes that the models of the open batch are fitted to.
    new
        The outcomes learned since.
    """

    problem: Problem
    batch: int
    known: ModelData
    new: ModelData


@dataclass(frozen=True)
class ModelPolicy:
    """Decide by a model of your own.

    Parameters
    ----------
    model
        An unfitted model with `fit(X, y)` and `predict(X)`, such as scikit-learn's. With
        `predict_proba(X)` and `classes_`, the prediction is the mean of the classes, for example
        the probability of 1. It is copied, never changed. Random models are given a seed, unless
        they state their own `random_state`.
    explore
        ``"greedy"``: the highest prediction. ``"epsilon"``: the highest prediction, but a share
        `epsilon` of the units gets a random action. ``"bootstrap"``: Thompson sampling with
        `samples` models, each fitted to outcomes drawn with replacement. ``"posterior"``: Thompson
        sampling with `samples` normal draws around the prediction, for models whose
        `predict(X, return_std=True)` also returns standard deviations; or with draws of the model's
        own, from `draws(X, samples, seed)` of shape (samples, n): predictions by each of `samples`
        drawn parameters, the same for any X. ``"ucb"``: the highest
        prediction plus `width` standard deviations: the model's own, or else those of `samples`
        bootstrap models.
    models
        ``"own"``: one model for each action. ``"one"``: one for all, whose rows end with an
        indicator of each action, except in the shared layout, which needs none. None: one in the
        shared layout, own in the others.
    epsilon, samples, width
        See `explore`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> class Mean:
    ...     def fit(self, X, y):
    ...         self.mean = y.mean()
    ...
    ...     def predict(self, X):
    ...         return np.full(len(X), self.mean)
    >>> policy = ModelPolicy(Mean(), explore="epsilon", epsilon=0.2)
    >>> learner = Learner(policy, grids.explicit([40, 42]), actions=2, dim=1, layout="block")
    >>> learner.observe(learner.assign(np.ones((40, 1))).actions * 3.0)
    >>> learner.assign(np.ones((2, 1))).probabilities
    array([[0.1, 0.9],
           [0.1, 0.9]])
    """

    model: Any
    _: KW_ONLY
    explore: Explore = "greedy"
    models: Models | None = None
    epsilon: float = 0.1
    samples: int = 25
    width: float = 1.0

    #: A model need not treat the forms of one problem equally, such as by its intercepts.
    pooling: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.model, type) or not hasattr(self.model, "fit"):
            raise InvalidArgumentError(
                "model",
                "an object with fit(X, y) and predict(X), for example LinearRegression()",
                repr(self.model),
            )
        if not (hasattr(self.model, "predict") or hasattr(self.model, "predict_proba")):
            raise InvalidArgumentError("model", "one with predict(X)", repr(self.model))
        arguments.choice("explore", self.explore, get_args(Explore))
        if self.models is not None:
            arguments.choice("models", self.models, get_args(Models))
        arguments.number("epsilon", self.epsilon, at_least=0, at_most=1)
        arguments.integer("samples", self.samples, at_least=2)
        arguments.number("width", self.width, at_least=0)
        known = gives_deviations(self.model) or hasattr(self.model, "draws")
        if self.explore == "posterior" and not known:
            raise InvalidArgumentError(
                "model",
                "one with predict(X, return_std=True) or draws(X, samples, seed) for explore = "
                '"posterior"',
                model_text(self.model),
                'Any model takes explore = "greedy", "epsilon", "bootstrap" or "ucb".',
            )

    @property
    def yes_no(self) -> bool:
        """Whether rewards must be 0 or 1, as of a classifier; the conformance checks ask."""
        return hasattr(self.model, "predict_proba")

    def begin(self, problem: Problem) -> ModelState:
        """Return the state before the first unit."""
        if self.models == "own" and problem.layout == "shared":
            raise InvalidArgumentError(
                "layout",
                "'disjoint' or 'block' with models = \"own\"",
                "'shared'",
                "In the shared layout one model serves all actions.",
            )
        nothing = ModelData(
            np.empty((0, problem.dim)), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64)
        )
        return ModelState(problem, 1, nothing, nothing)

    def assign(
        self, state: ModelState, contexts: Contexts, draws: Floats, positions: Integers
    ) -> Decision:
        """Predict the reward of each action, and choose."""
        units, K, eligible = len(contexts), state.problem.actions, contexts.eligible
        groups = np.zeros(len(positions), dtype=np.int64)
        if not len(state.known.rewards) or not units:
            actions, shares = uniformly(units, K, draws, eligible)
            unknown = np.zeros((units, K))
            return Decision(actions, shares, unknown, unknown.copy(), None, groups)
        drawn: int | None = None
        predicted = FITTED.of(self, state).predict(contexts)
        scores, deviations = predicted.means, predicted.deviations
        if self.explore == "ucb" and deviations is not None:
            scores = scores + self.width * deviations
        if predicted.draws is not None:
            shares = np.zeros((units, K))
            for table in predicted.draws:
                shares += highest(table, "lowest", draws, eligible)[1]
            drawn = len(predicted.draws)
            actions, shares = pick(shares / drawn, draws)
        else:
            actions, shares = highest(scores, "lowest", draws, eligible)
        if self.explore == "epsilon":
            _, every = uniformly(units, K, draws, eligible)
            actions, shares = pick((1 - self.epsilon) * shares + self.epsilon * every, draws)
        means = predicted.means.copy()
        return Decision(actions, shares, scores, means, deviations, groups, samples=drawn)

    def learn(self, state: ModelState, feedback: Feedback) -> ModelState:
        """Keep the outcomes for the end of the batch."""
        more = ModelData(feedback.vectors, feedback.actions, feedback.rewards)
        return replace(state, new=state.new.plus(more))

    def close(self, state: ModelState) -> ModelState:
        """End the batch: its outcomes are known."""
        # A new object even without new outcomes: models are kept by it, and seeded by the batch.
        known = replace(state.known.plus(state.new))
        return ModelState(state.problem, state.batch + 1, known, state.new.none())

    def recommended(self, state: ModelState, contexts: Contexts) -> Floats:
        """Return what units after the last batch would get: the highest prediction."""
        positions = np.arange(len(contexts))
        greedy = replace(self, explore="greedy")
        return greedy.assign(state, contexts, np.zeros(len(contexts)), positions).probabilities

    def described(self) -> dict[str, Any]:
        """Return the parameters as plain values, with the model as text."""
        names = [field.name for field in fields(self) if field.name != "model"]
        return {"model": model_text(self.model), **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class Predictions:
    """What models predict for some units.

    Parameters
    ----------
    means
        The predicted rewards, shape (n, K).
    deviations
        Their standard deviations, shape (n, K), where the policy uses them.
    draws
        Predictions of which each unit follows one, shape (samples, n, K), in Thompson sampling.
    """

    means: Floats
    deviations: Floats | None = None
    draws: Floats | None = None


@dataclass(frozen=True)
class FittedModels:
    """The models of one batch: for each action or for all, and their bootstrap copies."""

    policy: ModelPolicy
    problem: Problem
    batch: int
    models: tuple[Callable[..., Floats], ...]
    copies: tuple[tuple[Callable[..., Floats], ...], ...]

    @classmethod
    def fit(cls, policy: ModelPolicy, state: ModelState) -> "FittedModels":
        """Fit to the outcomes that are known in a state's open batch."""
        own = policy.models or ("one" if state.problem.layout == "shared" else "own")
        every = np.arange(len(state.known.rewards))
        parts = [every]
        if own == "own":
            parts = [
                every[state.known.actions == action] for action in range(state.problem.actions)
            ]
        rows = _rows(state.known.vectors, state.known.actions, state.problem, together=own == "one")
        usual = float(state.known.rewards.mean())

        def fitted(units: AnyArray, number: int, place: int) -> Callable[..., Floats]:
            # Each model has its own seed: draws for two actions must be independent.
            seed = int(np.random.SeedSequence([state.batch, number, place]).generate_state(1)[0])
            y = state.known.rewards[units]
            return _predictor(policy, rows[units], y, usual=usual, seed=seed)

        copies = []
        bootstraps = policy.explore == "bootstrap" or (
            policy.explore == "ucb" and not gives_deviations(policy.model)
        )
        for sample in range(policy.samples if bootstraps else 0):
            random = np.random.Generator(np.random.Philox(key=[state.batch, sample]))
            drawn = [part[random.integers(0, max(len(part), 1), len(part))] for part in parts]
            copies.append(tuple(fitted(units, sample + 1, k) for k, units in enumerate(drawn)))
        models = tuple(fitted(part, 0, k) for k, part in enumerate(parts))
        return cls(policy, state.problem, state.batch, models, tuple(copies))

    def predict(self, contexts: Contexts) -> Predictions:
        """Predict the reward of every action."""
        policy = self.policy
        if self.copies:
            means = self._table(self.models, contexts)
            draws = np.array([self._table(models, contexts) for models in self.copies])
            deviations = draws.std(axis=0, ddof=1)
            return Predictions(means, deviations, draws if policy.explore == "bootstrap" else None)
        if policy.explore not in ("posterior", "ucb"):
            return Predictions(self._table(self.models, contexts))
        if policy.explore == "posterior" and hasattr(policy.model, "draws"):
            draws = self._table(self.models, contexts, part="draws")
            return Predictions(self._table(self.models, contexts), draws.std(axis=0, ddof=1), draws)
        means, deviations = (
            self._table(self.models, contexts, part=part) for part in ("mean", "deviation")
        )
        if policy.explore == "ucb":
            return Predictions(means, deviations)
        # Keyed by the batch alone: the same draws for every unit, in whatever pieces.
        random = np.random.Generator(np.random.Philox(key=[self.batch, 1 << 32]))
        normals = random.standard_normal((policy.samples, 1, self.problem.actions))
        return Predictions(means, deviations, means + deviations * normals)

    def _table(
        self, models: tuple[Callable[..., Floats], ...], contexts: Contexts, part: str = "mean"
    ) -> Floats:
        """Return predictions (n, K); or draws of them, (samples, n, K)."""
        columns, values = [], contexts.values
        for action in range(self.problem.actions):
            x = values if self.problem.layout == "block" else values[:, action]
            taken = np.full(len(x), action)
            rows = _rows(x, taken, self.problem, together=len(models) == 1)
            columns.append(models[action if len(models) > 1 else 0](rows, part))
        return np.stack(columns, axis=-1)


def _rows(vectors: Floats, actions: AnyArray, problem: Problem, *, together: bool) -> Floats:
    """Return what models see: vectors, with an indicator of each action if one serves all."""
    if not together or problem.layout == "shared":
        return vectors
    return np.column_stack([vectors, np.eye(problem.actions)[actions]])


class _Fits:
    """The models of the open batches, which are fitted when a batch's first unit is assigned.

    They follow from the state, which keeps no models: a loaded learner fits them again.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[ModelData, FittedModels] = WeakKeyDictionary()

    def of(self, policy: ModelPolicy, state: ModelState) -> FittedModels:
        kept = self._kept.get(state.known)
        if kept is None or kept.policy is not policy:
            kept = self._kept[state.known] = FittedModels.fit(policy, state)
        return kept


FITTED = _Fits()


def _predictor(
    policy: ModelPolicy, X: Floats, y: Floats, *, usual: float, seed: int
) -> Callable[..., Floats]:
    """Fit a copy of a model; return the function that predicts means, deviations or draws.

    Without outcomes, or if all are equal, nothing is fitted: classifiers would refuse.
    """
    if not len(y) or (y == y[0]).all():
        value = float(y[0]) if len(y) else usual
        sizes = {"draws": (policy.samples,)}
        return lambda rows, part: np.full(
            (*sizes.get(part, ()), len(rows)), 0.0 if part == "deviation" else value
        )
    fitted = seeded(copy.deepcopy(policy.model), seed)

    @contextlib.contextmanager
    def able(what: str) -> Iterator[None]:
        """Say what the model should have been able to do."""
        try:
            yield
        except InvalidArgumentError:
            raise
        except Exception as error:
            rewards = f"{len(y)} rewards between {y.min():g} and {y.max():g}"
            received = f"{type(error).__name__}: {error}"
            raise InvalidArgumentError(
                "model", f"one that can {what} {rewards}", received
            ) from error

    with able("be fitted to"):
        fitted.fit(X, y)

    def predict(rows: Floats, part: str) -> Floats:
        with able("predict after"):
            return predicted(rows, part)

    def predicted(rows: Floats, part: str) -> Floats:
        if part == "draws":
            given = fitted.draws(rows, policy.samples, seed)
            return significant(arguments.floats("draws", given, (policy.samples, len(rows))))
        if part == "deviation":
            result = np.asarray(fitted.predict(rows, return_std=True)[1])
        elif hasattr(fitted, "predict_proba"):
            classes = np.asarray(fitted.classes_, dtype=np.float64)
            result = np.asarray(fitted.predict_proba(rows)) @ classes
        else:
            result = np.asarray(fitted.predict(rows))
        return significant(arguments.floats("predictions", result.reshape(len(rows)), ("n",)))

    return predict


def significant(values: Floats) -> Floats:
    """Round to a number of significant digits.

    >>> significant(np.array([1.23456789012345, 0.0, -2e-9]))
    array([ 1.23456789e+00,  0.00000000e+00, -2.00000000e-09])
    """
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.round(fraction, DIGITS), exponent)


def seeded(model: Any, seed: int) -> Any:
    """Set the random states that a model leaves open, also those of its parts."""
    if hasattr(model, "get_params"):
        given = {
            name: seed % 2**31
            for name, value in model.get_params().items()
            if value is None and name.rpartition("__")[2] == "random_state"
        }
        if given:
            model.set_params(**given)
    return model


def gives_deviations(model: Any) -> bool:
    """Return whether a model's predict takes return_std."""
    try:
        return "return_std" in inspect.signature(model.predict).parameters
    except (AttributeError, TypeError, ValueError):
        return False


def model_text(model: Any) -> str:
    """Return a model and its parameters as text that is the same in every process.

    Parameters that have their default are left out, where a model can be made without any.
    """
    usual: dict[str, Any] = {}
    if hasattr(model, "get_params"):
        parts = model.get_params(deep=False)
        with contextlib.suppress(Exception):
            usual = {name: repr(value) for name, value in type(model)().get_params().items()}
    else:
        parts = getattr(model, "__dict__", {})
    texts = {
        name: model_text(part) if hasattr(part, "fit") else repr(part)
        for name, part in sorted(parts.items())
    }
    shown = [f"{name}={text}" for name, text in texts.items() if usual.get(name) != text]
    return f"{type(model).__qualname__}({', '.join(shown)})"
