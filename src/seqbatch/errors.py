"""What can go wrong, as one tree.

::

    SeqbatchError
    ├── InvalidArgumentError   (also a ValueError)    a value breaks a stated rule
    │   └── InvalidGridError                          a grid that cannot exist
    ├── BatchRuleError         (also a RuntimeError)  feedback or units at the wrong time
    ├── LearnerFileError       (also a ValueError)    a saved learner that cannot be read
    ├── EngineError            (also a RuntimeError)  an engine that cannot be used, or lost work
    ├── CampaignError                                 a real experiment in waves
    │   ├── InvalidFileError   (also a ValueError)    a file of units or outcomes that breaks rules
    │   ├── InvalidSpecError   (also a ValueError)    a campaign's spec that breaks rules
    │   ├── CampaignStateError (also a RuntimeError)  not now: closed, full, outcomes missing
    │   │   └── UnknownCampaignError                  a store that has no campaign of that name
    │   ├── StoreError         (also a RuntimeError)  a database that cannot be used
    │   └── OutputError        (also an OSError)      done, but a file could not be written
    ├── datasets.MissingDatasetError, DamagedDatasetError    public data that is missing or damaged
    └── checks.PolicyCheckError, EnvironmentCheckError       a conformance check that fails
    RankDeficiencyWarning      (a UserWarning)        the data do not determine all parameters
    DeviceMemoryWarning        (a UserWarning)        a device with less memory than would be quick

Catch :class:`SeqbatchError` to catch all of them. A call that raises changes nothing,
but for OutputError, which says what was done.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any


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
        What to do about it, where the rule does not make that clear.
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


class EngineError(SeqbatchError, RuntimeError):
    """An engine that is not installed or not reached, or whose processes died again and again."""


class CampaignError(SeqbatchError):
    """Base of what can go wrong with a campaign."""


class InvalidSpecError(CampaignError, ValueError):
    """A campaign's spec that breaks a rule; the message quotes the offending lines.

    Parameters
    ----------
    message
        All of it.
    places
        The settings that break rules, as far as they are known, each with what is said of it.
    """

    def __init__(self, message: str, *, places: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.places = tuple(places)


class InvalidFileError(CampaignError, ValueError):
    """A file that breaks rules: every problem has its line, its column and the reason.

    Parameters
    ----------
    name
        The file, as the caller wrote it.
    problems
        (place, column, reason) of each; 0 stands for the header.
    consequence
        What was not done because of them.
    place
        What places count: lines of the file, the header being the first, or rows of data.
    """

    SHOWN = 20

    def __init__(
        self,
        name: str,
        problems: list[tuple[int, str, str]],
        consequence: str = "",
        *,
        place: str = "row",
    ) -> None:
        self.name = name
        self.place = place
        self.problems = problems
        self.consequence = consequence
        count = f"{len(problems):,} problem{'s' if len(problems) > 1 else ''}"
        lines = [f"{name}: {count}{'; ' if consequence else ''}{consequence}."]
        for row, column, reason in problems[: self.SHOWN]:
            # A problem of the whole file has neither a row nor a column.
            places = [f"{place} {row:,}" if row else "header"] if row or column else []
            places += [f"column {column!r}"] if column else []
            lines.append(f"  {', '.join(places)}{': ' if places else ''}{reason}")
        if len(problems) > self.SHOWN:
            lines.append(f"  ... and {len(problems) - self.SHOWN:,} more")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(type(self), place=self.place)
        return made, (self.name, self.problems, self.consequence)


class CampaignStateError(CampaignError, RuntimeError):
    """A call that the campaign's state does not allow; nothing was changed.

    Parameters
    ----------
    message
        What is not allowed, and what to do.
    commands
        What may be done instead, as words of ``seqbatch campaign``.
    """

    def __init__(self, message: str, *, commands: Sequence[tuple[str, ...]] = ()) -> None:
        super().__init__(message)
        self.commands = tuple(commands)


class UnknownCampaignError(CampaignStateError):
    """A store that has no campaign of that name; the message names those that it has."""


class StoreError(CampaignError, RuntimeError):
    """A database that cannot be opened, is of a newer version, or failed; nothing was changed."""


class OutputError(CampaignError, OSError):
    """A file that could not be written after a change was kept; the message says what was done.

    The same call can be made again: it changes nothing more, and writes the same file.
    """


class DeviceMemoryWarning(UserWarning):
    """A device has too little memory for the quickest way; the result is the same another way."""


class RankDeficiencyWarning(UserWarning):
    """The observed contexts do not span every direction; the minimum-norm estimate is used."""
