"""What a check says when all is well, and what becomes of an error when it is not."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import getdoc
from textwrap import shorten
from typing import Any, TypeVar

import numpy as np

from seqbatch.display import counted
from seqbatch.document import Table, shown
from seqbatch.errors import RankDeficiencyWarning, SeqbatchError
from seqbatch.policies import registry

Check = Callable[[Any], None]
_Subject = TypeVar("_Subject")


@dataclass(frozen=True)
class CheckReport:
    """The rules that a policy or an environment was found to keep.

    Parameters
    ----------
    subject
        What was checked.
    scope
        Where it was checked, as the end of a sentence; may be empty.
    rules
        The name of each check, and its rule in a line.
    """

    subject: str
    scope: str
    rules: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, subject: Any, checks: Sequence[Check], *, scope: str = "") -> "CheckReport":
        """Return the report of checks that raised nothing."""
        rules = tuple((check.__name__.removeprefix("check_"), stated(check)) for check in checks)
        return cls(named(subject), scope, rules)

    def tables(self) -> list[Table]:
        """Return the rules."""
        columns = ("check", "rule")
        return [Table(self._heading(), columns, self.rules, words=columns)]

    def __repr__(self) -> str:
        lines = [f"  {name.replace('_', ' ')}: {rule}" for name, rule in self.rules]
        return "\n".join([f"{self._heading()}:", *lines])

    def _repr_html_(self) -> str:
        return shown(self._heading(), self.tables())

    def _heading(self) -> str:
        return f"{self.subject} keeps {counted(len(self.rules), 'rule')}{self.scope}"


def rule(
    error: type[SeqbatchError],
) -> Callable[[Callable[[_Subject], None]], Callable[[_Subject], None]]:
    """Let a check raise this error alone, whatever happens inside it."""

    def decorate(check: Callable[[_Subject], None]) -> Callable[[_Subject], None]:
        @wraps(check)
        def checked(subject: _Subject) -> None:
            with warnings.catch_warnings():
                # A few units cannot determine every model in every layout; that is not checked.
                warnings.simplefilter("ignore", RankDeficiencyWarning)
                try:
                    check(subject)
                except error:
                    raise
                except Exception as raised:
                    raise error(
                        f"{named(subject)}: no error may come up where this is checked: "
                        f"{stated(check)} {said(raised)}."
                    ) from raised

        return checked

    return decorate


def stated(check: Check) -> str:
    """Return the rule of a check: the first line of its docstring."""
    return (getdoc(check) or "").partition("\n")[0]


def said(raised: Exception) -> str:
    """Return what an exception said, as the end of a complaint; the full stop comes after it."""
    text = shorten(str(raised), 300, placeholder=" ...").removesuffix(".")
    return f"Raised {type(raised).__name__}: {text}"


def named(subject: Any) -> str:
    """Return what to call a policy or an environment, whatever its own `repr` does.

    >>> named(registry.make("SBPE"))
    'SBPE(first = fixed, ties = lowest, unknown = zero)'
    """
    if isinstance(subject, type) or not hasattr(subject, "__dataclass_fields__"):
        return str(getattr(subject, "__name__", type(subject).__name__))
    try:
        return registry.text(registry.describe(subject))
    except Exception:  # a parameter that cannot be written out
        return type(subject).__name__


def brief(value: Any) -> str:
    """Return what was received, in a few words.

    >>> brief(None), brief(np.zeros((2, 3))), brief([1, 2])
    ('None', 'float64 of shape (2, 3)', 'list: [1, 2]')
    """
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    try:
        text = shorten(repr(value), 80, placeholder=" ...")
    except Exception:  # its repr may be as broken as the rest of it
        text = "which cannot be shown"
    return f"{type(value).__name__}: {text}"
