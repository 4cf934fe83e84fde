"""The language of eligibility rules: which units may get an action.

A rule is a column of yes and no (``may_phone``) or compares columns with values::

    age >= 18 and region != 'north'
    not (segment in ['trial', 'staff']) or vip
    opted_out_at is missing

The operators are ``and``, ``or``, ``not``, brackets, ``= == != < <= > >=``, ``in [...]``,
``not in``, ``is missing`` and ``is not missing``. Texts are in quotes; unusual column names are in
backticks. Rules are parsed here and evaluated by :mod:`seqbatch.campaign.features.eligibility`;
they are never run as code.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Kind = Literal["yes or no", "number", "text"]
Value = float | str | bool

#: A rule that is only a column name.
BARE = re.compile(r"[\w .:/%#&-]+")
TOKENS = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<quoted>`[^`]+`)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|==|!=|<>|=|<|>|\(|\)|\[|\]|,))"
)
#: Comparison operators, and their canonical forms.
SAME = {"=": "==", "==": "==", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
#: Each operator with its sides swapped.
SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
WORDS = ("and", "or", "not", "in", "true", "false")
#: The end of a rule about missing values; elsewhere these words may be names of columns.
IS_MISSING = re.compile(r"\bis\s+missing$", re.IGNORECASE)
#: The deepest nesting of brackets and `not`; Python's call stack is limited.
DEEPEST = 50


@dataclass(frozen=True)
class BooleanColumn:
    """A boolean column."""

    name: str


@dataclass(frozen=True)
class Compare:
    """A column compared with a value; `sign` is one of == != < <= > >=."""

    name: str
    sign: str
    value: Value


@dataclass(frozen=True)
class Among:
    """A column whose value is one of several."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Missing:
    """A column without a value: the only condition that a missing value can fulfil."""

    name: str


@dataclass(frozen=True)
class Not:
    """The negation of a rule."""

    rule: "EligibilityRule"


@dataclass(frozen=True)
class Both:
    """Several rules: all must hold (`every`), or at least one."""

    rules: tuple["EligibilityRule", ...]
    every: bool


EligibilityRule = BooleanColumn | Compare | Among | Missing | Not | Both


@lru_cache(maxsize=256)
def parsed(text: str) -> EligibilityRule:
    """Parse a rule.

    >>> parsed("may phone")
    BooleanColumn(name='may phone')
    >>> parsed("18 <= age")
    Compare(name='age', sign='>=', value=18.0)
    >>> parsed("opted_out is missing")
    Missing(name='opted_out')

    Raises
    ------
    ValueError
        If the text is not a rule; the message gives the position of the error.
    """
    bare = text.strip()
    operators = set(re.findall(r"\w+", bare.lower())) & set(WORDS)
    if BARE.fullmatch(bare) and not operators and not IS_MISSING.search(bare):
        return BooleanColumn(bare)
    return _Parser(text).run()


def columns(rule: EligibilityRule) -> Iterator[tuple[str, Kind | None]]:
    """Yield the columns of a rule, each with the type that the rule uses it as; None for any."""
    match rule:
        case BooleanColumn(name):
            yield name, "yes or no"
        case Compare(name, _, value):
            yield name, _kind(value)
        case Among(name, values):
            yield name, _kind(values[0])
        case Missing(name):
            yield name, None
        case Not(inner):
            yield from columns(inner)
        case Both(rules, _):
            for each in rules:
                yield from columns(each)


def _kind(value: Value) -> Kind:
    if isinstance(value, bool):
        return "yes or no"
    return "text" if isinstance(value, str) else "number"


class _Parser:
    """A recursive descent parser for one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._cut(text))
        self._place = 0
        self._depth = 0

    def _cut(self, text: str) -> Iterator[tuple[str, str, int]]:
        place, end = 0, len(text.rstrip())
        while place < end:
            found = TOKENS.match(text, place)
            if found is None:
                start = place + len(text[place:]) - len(text[place:].lstrip())
                where = self._where(start)
                raise ValueError(
                    f"{where}: this cannot be read as part of a rule{_advice(text[start:])}"
                )
            kind = str(found.lastgroup)
            word, start = found[kind], found.start(kind)
            if kind == "word" and word.lower() in WORDS:
                kind, word = "keyword", word.lower()
            yield kind, word, start
            place = found.end()

    def _where(self, place: int) -> str:
        return f"in the rule {self._text!r} at character {place + 1}"

    def run(self) -> EligibilityRule:
        if not self._tokens:
            raise ValueError("a rule must not be empty: name a column, or compare one with a value")
        rule = self._either()
        if self._place < len(self._tokens):
            self._fail("and, or, or the end")
        return rule

    def _peek(self) -> tuple[str, str]:
        if self._place < len(self._tokens):
            kind, word, _ = self._tokens[self._place]
            return kind, word
        return "end", ""

    def _take(self, *words: str) -> bool:
        """Consume the next token if it is one of these keywords or operators."""
        kind, word = self._peek()
        if kind in ("keyword", "sign") and word in words:
            self._place += 1
            return True
        return False

    def _take_word(self, word: str) -> bool:
        """Consume the next token if it is this word, which is no keyword elsewhere."""
        kind, found = self._peek()
        if kind == "word" and found.lower() == word:
            self._place += 1
            return True
        return False

    def _fail(self, wanted: str) -> None:
        kind, word = self._peek()
        place = len(self._text) if kind == "end" else self._tokens[self._place][2]
        got = "the end" if kind == "end" else repr(word)
        raise ValueError(f"{self._where(place)}: expected {wanted}; received {got}")

    def _either(self) -> EligibilityRule:
        rules = [self._all()]
        while self._take("or"):
            rules.append(self._all())
        return rules[0] if len(rules) == 1 else Both(tuple(rules), every=False)

    def _all(self) -> EligibilityRule:
        rules = [self._one()]
        while self._take("and"):
            rules.append(self._one())
        return rules[0] if len(rules) == 1 else Both(tuple(rules), every=True)

    def _one(self) -> EligibilityRule:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"a rule may nest brackets at most {DEEPEST} deep")
        if self._take("not"):
            rule: EligibilityRule = Not(self._one())
        elif self._take("("):
            rule = self._either()
            if not self._take(")"):
                self._fail("a closing bracket")
        else:
            rule = self._comparison()
        self._depth -= 1
        return rule

    def _comparison(self) -> EligibilityRule:
        kind, _ = self._peek()
        if kind in ("number", "text"):
            value = self._value()
            sign = SWAPPED[self._sign()]
            return self._compared(self._name(), sign, value)
        name = self._name()
        if self._take("not"):
            if not self._take("in"):
                self._fail("in")
            return Not(self._among(name))
        if self._take("in"):
            return self._among(name)
        if self._take_word("is"):
            present = self._take("not")
            if not self._take_word("missing"):
                self._fail("missing" if present else "missing, or not missing")
            return Not(Missing(name)) if present else Missing(name)
        if self._peek()[1] in SAME and self._peek()[0] == "sign":
            return self._compared(name, self._sign(), self._value())
        return BooleanColumn(name)

    def _name(self) -> str:
        kind, word = self._peek()
        if kind not in ("word", "quoted"):
            self._fail("a column")
        self._place += 1
        return word.strip("`")

    def _sign(self) -> str:
        kind, word = self._peek()
        if kind != "sign" or word not in SAME:
            self._fail("a comparison (= != < <= > >=)")
        self._place += 1
        return SAME[word]

    def _value(self) -> Value:
        kind, word = self._peek()
        if word in ("true", "false"):
            self._place += 1
            return word == "true"
        if kind not in ("number", "text"):
            self._fail("a number, or a text in quotes")
        self._place += 1
        return float(word) if kind == "number" else word[1:-1]

    def _compared(self, name: str, sign: str, value: Value) -> EligibilityRule:
        if isinstance(value, bool):
            if sign not in ("==", "!="):
                raise ValueError(
                    f"{name} {sign} {str(value).lower()} compares by order, but yes and no have "
                    "none: use = or !="
                )
            yes = BooleanColumn(name)
            return yes if value == (sign == "==") else Not(yes)
        if isinstance(value, str) and sign not in ("==", "!="):
            raise ValueError(
                f"{name} {sign} {value!r} compares texts by order, but texts have none here: "
                "use =, != or in"
            )
        return Compare(name, sign, value)

    def _among(self, name: str) -> Among:
        if not self._take("["):
            self._fail("a list in square brackets")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        if not self._take("]"):
            self._fail("a comma, or the closing ]")
        kinds = {_kind(value) for value in values}
        if len(kinds) > 1 or "yes or no" in kinds:
            raise ValueError(f"the list for {name} must hold either only numbers or only texts")
        return Among(name, tuple(values))


def _advice(rest: str) -> str:
    return "; close the quotes" if rest[:1] in ("'", '"', "`") else f"; received {rest[:20]!r}"
