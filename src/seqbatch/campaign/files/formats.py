"""The formats of files, by the endings of their names."""

from collections.abc import Mapping

from seqbatch.core import arguments
from seqbatch.errors import InvalidArgumentError

#: The formats of files, the workbooks among them, and those that are written.
FORMATS, WORKBOOKS = ("csv", "parquet", "arrow", "xlsx", "xls"), ("xlsx", "xls")
WRITTEN = ("csv", "parquet", "arrow", "xlsx")
#: The endings of files that are written.
ENDINGS = {
    ".csv": "csv", ".csv.gz": "csv", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow",
    ".ipc": "arrow", ".xlsx": "xlsx",
}  # fmt: skip
#: More file name endings that are read.
READ = ENDINGS | {
    ".tsv": "csv", ".tsv.gz": "csv", ".tab": "csv", ".txt": "csv", ".txt.gz": "csv",
    ".xls": "xls", ".xlsm": "xlsx",
}  # fmt: skip
#: The endings of workbooks that are not written, and in part not read.
OTHER_WORKBOOKS = (".xls", ".xlsm", ".xlsb", ".ods")


def format_of(name: str, file_format: str | None, *, endings: Mapping[str, str] = ENDINGS) -> str:
    """Return a file's format, as stated or from its ending.

    Parameters
    ----------
    name
        The name of the file, or "-" for a pipe.
    file_format
        The format that was stated, if any.
    endings
        The endings to know: `ENDINGS` for a file to write, `READ` for one to read.
    """
    if file_format is not None:
        known = FORMATS if endings is READ else WRITTEN
        return arguments.choice("file_format", file_format, known)
    if name == "-":
        return "csv"
    for ending, found in endings.items():
        if name.lower().endswith(ending):
            return found
    advice = "Or state its format."
    if name.lower().endswith(OTHER_WORKBOOKS):
        advice = "Save it as .xlsx."
    raise InvalidArgumentError("file", f"named with one of {', '.join(endings)}", name, advice)


def has_ending(name: str) -> bool:
    """Return whether a file's name shows its format."""
    return name.lower().endswith(tuple(ENDINGS))


def answer_format(file_format: str) -> str:
    """Return the format of the answers to a file: its own if that is written, else the nearest.

    >>> answer_format("csv"), answer_format("xls")
    ('csv', 'xlsx')
    """
    return "xlsx" if file_format == "xls" else file_format
