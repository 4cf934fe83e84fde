"""All errors and warnings of seqbatch, and their messages as values with remedies.

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
    │   │   └── UnknownCampaignError                  the store has no campaign of that name
    │   ├── StoreError         (also a RuntimeError)  a database that cannot be used
    │   │   └── UncertainCommitError                  the change may or may not have been stored
    │   └── OutputError        (also an OSError)      done, but a file could not be written
    ├── datasets.MissingDatasetError, DamagedDatasetError    public data that is missing or damaged
    └── checks.PolicyCheckError, EnvironmentCheckError       a conformance check that fails
    RankDeficiencyWarning      (a UserWarning)        the data do not determine all parameters
    DeviceMemoryWarning        (a UserWarning)        a device with too little memory to be fast
    DoubtWarning               (a UserWarning)        it was done, and may be wrong: has a doubt

Catch :class:`SeqbatchError` to catch all of them. A call that raises changes nothing, with two
exceptions: the message of an OutputError says what was done, and after an UncertainCommitError the
change may have been stored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

# ----------------------------------------------------------------------
# Messages as values. The library fills them in. Python, the command line, HTTP and the web pages
# each have one function that puts them into words.


#: The kinds of remedy. "force" and "key" repeat the same call by force, or with the key file;
#: "overwrite" replaces a file.
Action = Literal[
    "abort", "amend", "close", "continue", "dedupe", "delete", "delimiter", "draw", "force",
    "init", "key", "look", "overwrite", "partial", "record", "record-sums", "skip-rows", "sql",
    "stop",
]  # fmt: skip


@dataclass(frozen=True, init=False)
class Remedy:
    """What you can do about a refusal or a doubt, as data instead of words.

    Parameters
    ----------
    action
        The kind of remedy.
    options
        The call's arguments; ``...`` marks a value that you fill in.

    Examples
    --------
    >>> Remedy("amend", floor=0.02, reason=...).plain()
    {'action': 'amend', 'options': {'floor': 0.02, 'reason': None}}
    """

    action: Action
    options: Mapping[str, Any]

    def __init__(self, action: Action, **options: Any) -> None:
        object.__setattr__(self, "action", action)
        object.__setattr__(self, "options", options)

    def plain(self) -> dict[str, Any]:
        """Return the remedy for JSON; None marks a value that you fill in."""
        options = {name: None if own is ... else own for name, own in self.options.items()}
        return {"action": self.action, "options": options}


#: A part of a message: text, or a remedy whose words are appended to the text before it.
Part = str | Remedy
#: Puts a remedy into words.
Words = Callable[[Remedy], str]


def in_python(remedy: Remedy) -> str:
    """Return a remedy in words for Python users, to be appended to the text before it.

    >>> in_python(Remedy("draw")), in_python(Remedy("close", force=True, reason=...))
    (' (draw=True)', ': force=True, with a reason=...')
    """
    match remedy.action:
        case "draw" | "partial":
            return f" ({remedy.action}=True)"
        case "overwrite":
            return " (force=True)."
        case "close" | "record-sums" if "force" in remedy.options:
            return ": force=True, with a reason=..."
        case "delete":
            return ": force=True."
        case "force":
            return " If that is intended, add force=True."
        case "continue":
            return " (go_on)"
        case "key":
            return " (key=...)"
        case "record":
            return f" ({_arguments(remedy)})"
        case "dedupe":
            return f': dedupe="{remedy.options["dedupe"]}" (or "first", or "newest-by COLUMN").'
        case "skip-rows":
            return f": skip_rows={remedy.options['skip_rows']}."
        case "amend":
            return f" amend({_arguments(remedy)})"
        case _:
            return ""


def _arguments(remedy: Remedy) -> str:
    return ", ".join(f"{name}={_shown(own)}" for name, own in remedy.options.items())


def _shown(value: Any) -> str:
    return "..." if value is ... else repr(value)


def told(parts: Sequence[Part], words: Words | None = None) -> str:
    """Return a message's text, with remedies in words; those of Python by default."""
    say = words or in_python
    return "".join(part if isinstance(part, str) else say(part) for part in parts)


def remedies_in(parts: Sequence[Part]) -> tuple[Remedy, ...]:
    """Return the remedies among the parts of a message."""
    return tuple(part for part in parts if isinstance(part, Remedy))


@dataclass(frozen=True)
class Refusal:
    """Why a call was refused, and what you can do about it.

    Parameters
    ----------
    code
        The kind of refusal, for programs; it does not change when the wording does.
    parts
        The text with its remedies; if there is a rule, it comes first.
    field
        The argument, setting or column in question, or "".
    subject, rule, received
        The thing that breaks a rule, the rule as the end of "... must be", and the value.
    remedies
        What you can do: the remedies in the text, and further ones.
    """

    code: str
    parts: tuple[Part, ...] = ()
    field: str = ""
    subject: str = ""
    rule: str = ""
    received: object = None
    remedies: tuple[Remedy, ...] = ()

    def text(self, words: Words | None = None, subject: Callable[[str], str] | None = None) -> str:
        """Return the refusal in words.

        Parameters
        ----------
        words
            Puts a remedy into words; None for those of Python.
        subject
            Formats the name of an argument; None to leave it as it is.
        """
        text = told(self.parts, words)
        if not self.rule:
            return text
        name = self.subject if subject is None else subject(self.subject)
        return f"{name} must be {self.rule}; received {self.received}.{text}"


@dataclass(frozen=True)
class Doubt:
    """A possible problem with a file, which is read nevertheless.

    Parameters
    ----------
    kind
        The kind of doubt, for programs.
    parts
        The text, with its remedies.
    column
        The column in question, or "".
    rows
        The number of affected rows or ids, as far as they were counted.
    examples
        Cells or ids that show the problem.
    """

    kind: str
    parts: tuple[Part, ...]
    column: str = ""
    rows: int = 0
    examples: tuple[str, ...] = ()

    def text(self, words: Words | None = None) -> str:
        """Return the doubt in words."""
        return told(self.parts, words)

    def plain(self) -> dict[str, Any]:
        """Return the doubt for JSON, without its text."""
        return {
            "kind": self.kind, "column": self.column, "rows": self.rows,
            "examples": list(self.examples),
            "remedies": [remedy.plain() for remedy in remedies_in(self.parts)],
        }  # fmt: skip


# ----------------------------------------------------------------------
# The errors; each has a refusal.


class SeqbatchError(Exception):
    """Base class of every error that seqbatch raises on purpose.

    Parameters
    ----------
    parts
        The message: text, and remedies.
    code
        The kind of refusal; by default, that of the class.
    field
        The argument, setting or column in question.
    remedies
        What you can do besides the remedies in the message.
    """

    #: The default code of this class.
    usual = "failed"

    def __init__(
        self, *parts: Part, code: str = "", field: str = "", remedies: Sequence[Remedy] = ()
    ) -> None:
        self._refuse(Refusal(code, parts, field, remedies=(*remedies_in(parts), *remedies)))

    def _refuse(self, refusal: Refusal) -> None:
        """Store the refusal, and use its text as the message."""
        self.refusal = replace(refusal, code=refusal.code or self.usual)
        Exception.__init__(self, self.refusal.text())

    @property
    def code(self) -> str:
        """The kind of refusal, for programs."""
        return self.refusal.code

    @property
    def field(self) -> str:
        """The argument, setting or column in question, or ""."""
        return self.refusal.field

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What you can do about it."""
        return self.refusal.remedies


class InvalidArgumentError(SeqbatchError, ValueError):
    """An argument breaks a rule; the message names the argument, the rule and the value.

    Parameters
    ----------
    name
        The argument, as the caller wrote it.
    rule
        What it must be, as the end of "... must be".
    received
        The value that was passed.
    advice
        What to do about it, if the rule does not make that clear.
    code, field
        The kind of refusal; and the argument, if its own name is clearer than `name`.
    remedies
        What you can do; their words are appended to the advice.
    """

    usual = "invalid-argument"

    def __init__(
        self,
        name: str,
        rule: str,
        received: object,
        advice: str = "",
        *,
        code: str = "",
        field: str = "",
        remedies: Sequence[Remedy] = (),
    ) -> None:
        self.name = name
        self.rule = rule
        self.received = received
        self.advice = advice
        parts: tuple[Part, ...] = (f" {advice}" if advice else "", *remedies)
        self._refuse(Refusal(code, parts, field or name, name, rule, received, tuple(remedies)))

    def __reduce__(self) -> tuple[Any, ...]:
        of = self.refusal
        made = partial(type(self), code=of.code, field=of.field, remedies=of.remedies)
        return made, (self.name, self.rule, self.received, self.advice)


class InvalidGridError(InvalidArgumentError):
    """A grid that cannot exist: too many batches, too few units, ends that do not increase."""

    usual = "invalid-grid"


class BatchRuleError(SeqbatchError, RuntimeError):
    """Outcomes shown before the batch ended, units past its end, or a batch observed twice."""

    usual = "batch-rule"


class LearnerFileError(SeqbatchError, ValueError):
    """A file that is not a saved learner, is damaged, or was saved by another policy."""

    usual = "learner-file"


class EngineError(SeqbatchError, RuntimeError):
    """An engine that is not installed, cannot be reached, or whose processes died repeatedly."""

    usual = "engine-failed"


class CampaignError(SeqbatchError):
    """Base class of all errors of campaigns."""

    usual = "campaign-failed"


#: The place of a setting in a spec: its table and its name, such as ("grid", "sizes").
Place = tuple[str, ...]


class InvalidSpecError(CampaignError, ValueError):
    """A campaign's spec that breaks a rule; the message quotes the offending lines.

    Parameters
    ----------
    parts
        The message: text, and remedies.
    places
        The settings that break rules, as far as they are known, each with a message.
    """

    usual = "invalid-spec"

    def __init__(
        self,
        *parts: Part,
        code: str = "",
        field: str = "",
        remedies: Sequence[Remedy] = (),
        places: Sequence[tuple[Place, str]] = (),
    ) -> None:
        field = field or (".".join(places[0][0]) if places else "")
        super().__init__(*parts, code=code, field=field, remedies=remedies)
        self.places = tuple(places)

    @classmethod
    def at(cls, place: Place, said: str) -> "InvalidSpecError":
        """Return an error about one setting."""
        return cls(said, places=[(place, said)])


@dataclass(frozen=True, order=True)
class RowProblem:
    """One problem of a file: where it is, and why.

    Parameters
    ----------
    row
        The row or line; 0 for the header or the whole file.
    column
        The column, or "".
    reason
        The reason in words.
    code
        The kind of problem, for programs, such as "missing" or "not-a-number".
    """

    row: int
    column: str
    reason: str
    code: str


class InvalidFileError(CampaignError, ValueError):
    """A file that breaks rules; every problem has a line, a column and a reason.

    Parameters
    ----------
    name
        The file, as the caller wrote it.
    problems
        The problems; row 0 is the header.
    consequence
        What was not done because of them.
    place
        The unit of places: lines of the file (the header is line 1), or rows of data.
    code
        The kind of refusal, if it is not about single rows, such as "unreadable-file".
    remedies
        What you can do besides correcting the file.
    advice
        The last line of the message: text, and remedies.
    """

    usual = "invalid-rows"
    SHOWN = 20

    def __init__(
        self,
        name: str,
        problems: list[RowProblem],
        consequence: str = "",
        *,
        place: str = "row",
        code: str = "",
        remedies: Sequence[Remedy] = (),
        advice: Sequence[Part] = (),
    ) -> None:
        self.name = name
        self.place = place
        self.advice = tuple(advice)
        self.problems = problems
        self.consequence = consequence
        count = f"{len(problems):,} problem{'s' if len(problems) > 1 else ''}"
        lines = [f"{name}: {count}{'; ' if consequence else ''}{consequence}."]
        for each in problems[: self.SHOWN]:
            # A problem with the whole file has neither a row nor a column.
            row = [f"{place} {each.row:,}" if each.row else "header"]
            places = row if each.row or each.column else []
            places += [f"column {each.column!r}"] if each.column else []
            lines.append(f"  {', '.join(places)}{': ' if places else ''}{each.reason}")
        if len(problems) > self.SHOWN:
            lines.append(f"  ... and {len(problems) - self.SHOWN:,} more")
        # If all problems are in one column, the refusal is about that column.
        columns = {each.column for each in problems}
        field = next(iter(columns)) if len(columns) == 1 else ""
        parts = ("\n".join(lines), *(["\n  ", *advice] if advice else []))
        super().__init__(*parts, code=code, field=field, remedies=remedies)

    def plain_problems(self) -> list[dict[str, Any]]:
        """Return the problems for JSON."""
        return [
            {self.place: each.row, "column": each.column, "reason": each.reason, "code": each.code}
            for each in self.problems
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        inside = remedies_in(self.advice)
        beside = [remedy for remedy in self.remedies if remedy not in inside]
        made = partial(
            type(self), place=self.place, code=self.code, remedies=beside, advice=self.advice
        )
        return made, (self.name, self.problems, self.consequence)


class CampaignStateError(CampaignError, RuntimeError):
    """A call that the campaign's state does not allow; nothing was changed.

    Parameters
    ----------
    parts
        What is not allowed, and what to do: text, and remedies.
    code
        The state that does not allow it, such as "wave-full".
    remedies
        What you can do besides the remedies in the message.
    """

    usual = "wrong-state"


class UnknownCampaignError(CampaignStateError):
    """The store has no campaign of that name; the message lists the existing ones."""

    usual = "unknown-campaign"


#: The code of a StoreError about damaged records; the rest of the store may be sound.
DAMAGED = "damaged"
#: The code of a campaign whose newest events are missing.
EVENTS_MISSING = "events-missing"


class StoreError(CampaignError, RuntimeError):
    """A database that cannot be opened, has a newer version, or failed; nothing was changed."""

    usual = "store-failed"


class UncertainCommitError(StoreError):
    """The store failed while committing: the change may or may not have been stored.

    A caller that has done something outside the store, such as writing a file, must not undo it
    unless the store says that the change is absent.
    """

    usual = "uncertain-commit"


class OutputError(CampaignError, OSError):
    """A file could not be written after a change was stored; the message says what was done.

    You can repeat the call: it changes nothing more, and writes the same file.
    """

    usual = "output-failed"


class DeviceMemoryWarning(UserWarning):
    """A device has too little memory for the fastest method; a slower one gives the same result."""


class DoubtWarning(UserWarning):
    """A campaign was created from a spec that keeps all rules, but something may go wrong.

    Parameters
    ----------
    doubt
        What may go wrong.
    """

    def __init__(self, doubt: Doubt) -> None:
        super().__init__(doubt.text())
        self.doubt = doubt


class RankDeficiencyWarning(UserWarning):
    """The observed contexts do not span every direction; the minimum-norm estimate is used."""
