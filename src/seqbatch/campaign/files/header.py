"""The header of a file: names for all columns, and no titles above it."""

from collections.abc import Sequence

from seqbatch.errors import RowProblem

#: The number of rows below a title among which the header is looked for.
LOOKED_AT = 20


class HeaderError(ValueError):
    """A value in a column without a name, or a header below other lines.

    Parameters
    ----------
    problem
        The problem, with the position of the value.
    """

    def __init__(self, problem: RowProblem) -> None:
        super().__init__(problem.reason)
        self.problem = problem


def unnamed_cell(
    word: str, place: int, header: Sequence[str], rows: Sequence[tuple[int, list[str]]]
) -> HeaderError:
    """Return the error for the first value in a column without a name.

    Parameters
    ----------
    word
        The word for a position in the file, line or row.
    place
        The index of the column.
    header
        The names of all columns, as read.
    rows
        The row with the value and those below it, with their positions.
    """
    # Titles fill few cells; where most columns have a name, a row of words below may be a unit.
    titled = 2 * sum(map(bool, header)) < len(header)
    for row, cells in rows[: LOOKED_AT if titled else 1]:
        if _names_all(cells):
            return HeaderError(late_header(word, row))
    row, cells = rows[0]
    reason = (
        f"column {place + 1} has the value {cells[place][:40]!r} but no name in the header (there "
        "may be two headers). Keep one header, with a name for every column"
    )
    return HeaderError(RowProblem(row, "", reason, "unnamed-column"))


def late_header(word: str, row: int) -> RowProblem:
    """Return the problem of a header below other lines."""
    reason = f"the header seems to be on {word} {row:,}; delete the {word}s above it, or skip them"
    return RowProblem(row, "", reason, "late-header")


def _names_all(cells: list[str]) -> bool:
    """Return whether a row may be the header: its cells are distinct words, not numbers.

    >>> _names_all(["id", "age"]), _names_all(["a7", "31"]), _names_all(["id", "id"])
    (True, False, False)
    """
    names = {cell.strip() for cell in cells}
    return len(names) == len(cells) and all(name and not name[0].isdigit() for name in names)
