"""What the library says in the words of Python and of commands, for those who send calls."""

import re

_AMEND = r"seqbatch campaign amend \S+ "
#: What only Python or a shell knows, and what stands for it in a call.
_SPELLED = (
    (re.compile(r"\b(draw|partial|force)=True\b"), r"\1 = true"),
    (re.compile(r"\ba reason=\.\.\."), "a reason."),
    (re.compile(r" \(in Python go_on\)"), ""),
    (re.compile(_AMEND + "--reward-format"), "an amendment with reward_format"),
    (
        # A dollar stands in single quotes, for the sake of shells.
        re.compile(_AMEND + r"""--metric-format (["'])(.*?)=([^"=]*?)\1"""),
        r'an amendment with metric_formats {"\2": "\3"}',
    ),
    (re.compile(r"\(--metric-format for "), "(metric_formats for "),
    (re.compile(r' --reason "\.\.\."| with --reason'), " and a reason"),
)


def in_calls(text: str) -> str:
    """Return a message that names options as bodies and parameters of calls do.

    >>> in_calls("Or close it as it is: force=True, with a reason=...")
    'Or close it as it is: force = true, with a reason.'
    >>> in_calls('after seqbatch campaign amend spring --reward-format "1.234,56" --reason "..."')
    'after an amendment with reward_format "1.234,56" and a reason'
    """
    for spelled, words in _SPELLED:
        text = spelled.sub(words, text)
    return text
