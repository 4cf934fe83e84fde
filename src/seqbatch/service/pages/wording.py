"""What the library says, for people who press buttons instead of setting options."""

import re

#: Options that a message names, and what stands for them on a page.
OPTIONS = (
    (
        re.compile(r"Or close it as it is: force=True, with a reason=\.\.\."),
        "Or close it as it is, below.",
    ),
    (re.compile(r" \((?:draw|partial|force)=True\)"), ""),
)


def for_people(text: str) -> str:
    """Return a message without the names of options.

    >>> for_people("Or draw as many as fit from the list (draw=True), which is fair.")
    'Or draw as many as fit from the list, which is fair.'
    """
    for option, words in OPTIONS:
        text = option.sub(words, text)
    return text
