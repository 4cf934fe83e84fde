"""What the library says, for people who press buttons instead of setting options."""

import re

from seqbatch.service.words import in_calls

#: Options that a message names, and what stands for them on a page.
OPTIONS = (
    (
        re.compile(r"Or close it as it is: force = true, with a reason\."),
        "Or close it as it is, below.",
    ),
    (re.compile(r" \((?:draw|partial|force) = true\)"), ""),
    (re.compile(r", without draw = true"), ", without drawing from them"),
    # The page has no such box.
    (re.compile(r" Where that is meant, add force = true\."), ""),
    (re.compile(r"an amendment with reward_format"), "a change of how outcomes are spelled to"),
    # The page has no such field.
    (re.compile(r"an amendment with (?=metric_formats)"), "a call of amend over HTTP with "),
)


def for_people(text: str) -> str:
    """Return a message without the names of options.

    >>> for_people("Or draw as many as fit from the list (draw=True), which is fair.")
    'Or draw as many as fit from the list, which is fair.'
    """
    text = in_calls(text)
    for option, words in OPTIONS:
        text = option.sub(words, text)
    return text
