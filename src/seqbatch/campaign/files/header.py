"""The header of a file: names for all columns, and no titles above it."""

from seqbatch.errors import RowProblem


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


def unnamed_cell(word: str, row: int, place: int, cells: list[str]) -> HeaderError:
    """Return the error for the first value in a column without a name.

    Parameters
    ----------
    word, row
        The word for a position in the file, line or row, and the position.
    place, cells
        The index of the column, and all cells of the row.
    """
    if _names_all(cells):
        return HeaderError(late_header(word, row))
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
