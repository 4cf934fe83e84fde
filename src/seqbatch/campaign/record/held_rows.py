"""Held rows of outcome files, and rows that do not count, in words."""

from seqbatch.display import counted


def rows_are(count: int) -> str:
    """Return a number of rows with its verb."""
    return f"{counted(count, 'row')} {'is' if count == 1 else 'are'}"


def held_text(held: int, unknown: int = 0) -> str:
    """Say how many rows of outcome files are held, and what that means.

    >>> held_text(0), held_text(1)
    ('No row is held.', '1 row is held: its values are not in the numbers.')
    """
    if not held:
        return "No row is held."
    its = "its" if held == 1 else "their"
    return f"{rows_are(held)} held: {its} values are not in the numbers.{_strangers(held, unknown)}"


def held_so_far_text(held: int, unknown: int = 0) -> str:
    """Say how many rows of all files so far were held, and what that means.

    Some may have been recorded again since, with another format or row id, and accepted.

    >>> held_so_far_text(0), held_so_far_text(2)
    ('No row is held.', '2 rows were held so far. Their values are not in the numbers unless you \
recorded them again and they were accepted.')
    """
    if not held:
        return "No row is held."
    were, their, them = ("was", "Its", "it") if held == 1 else ("were", "Their", "them")
    again = f"you recorded {them} again and {'it was' if held == 1 else 'they were'} accepted"
    return (
        f"{counted(held, 'row')} {were} held so far. {their} values are not in the numbers unless "
        f"{again}.{_strangers(held, unknown)}"
    )


def _strangers(held: int, unknown: int) -> str:
    """Say how many of the held rows have an unknown unit, after a space; nothing if none has."""
    if not unknown:
        return ""
    many = "All of" if unknown == held else f"{unknown:,} of"
    who = "It has" if held == 1 else f"{many} them have"
    return f" {who} a unit that is not in the campaign."


def outside_text(within: str, count: int) -> str:
    """Say how many rows do not count for a metric because of their date.

    >>> outside_text("14 days", 2)
    "2 rows are outside 14 days of the unit's assignment, and not in the numbers."
    """
    return f"{rows_are(count)} outside {within} of the unit's assignment, and not in the numbers."
