"""What can go wrong, as one tree.

::

    SeqbatchError
    ├── InvalidArgumentError   (also a ValueError)    a value breaks a stated rule
    │   └── InvalidGridError                          a grid that cannot exist
    ├── BatchRuleError         (also a RuntimeError)  feedback or units at the wrong time
    ├── LearnerFileError       (also a ValueError)    a saved learner that cannot be read
    ├── datasets.MissingDatasetError, DamagedDatasetError    public data that is not as it should be
    └── checks.PolicyCheckError, EnvironmentCheckError       a rule of the conformance checks broken
    RankDeficiencyWarning      (a UserWarning)        the data do not determine every parameter

Catch :class:`SeqbatchError` to catch all of them. A call that raises changes nothing.
"""


class SeqbatchError(Exception):
    """Base of every error that seqbatch raises on purpose."""


class InvalidArgumentError(SeqbatchError, ValueError):
    """An argument breaks a rule; the message names the argument, the rule and the value.

    Parameters
    ----------
    name
        The argument, as the caller wrote it.
    rule
        What it must be, as the end of "... must be".
    received
        What it was.
    advice
        What to do about it, where that is not plain from the rule.
    """

    def __init__(self, name: str, rule: str, received: object, advice: str = "") -> None:
        self.name = name
        self.rule = rule
        self.received = received
        self.advice = advice
        hint = f" {advice}" if advice else ""
        super().__init__(f"{name} must be {rule}; received {received}.{hint}")

    def __reduce__(self) -> tuple[type["InvalidArgumentError"], tuple[str, str, object, str]]:
        return type(self), (self.name, self.rule, self.received, self.advice)


class InvalidGridError(InvalidArgumentError):
    """A grid that cannot exist: too many batches, too few units, ends that do not increase."""


class BatchRuleError(SeqbatchError, RuntimeError):
    """Outcomes shown before the batch ended, units past its end, or a batch observed twice."""


class LearnerFileError(SeqbatchError, ValueError):
    """A file that is not a saved learner, is damaged, or was saved by another policy."""


class RankDeficiencyWarning(UserWarning):
    """The observed contexts do not span every direction; the minimum-norm estimate is used."""
