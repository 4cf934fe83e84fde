"""What to do about a text that is not TOML, beside what its parser says."""

import re

#: Quotes that word processors set.
CURLY = "“”„‟‘’‚‛«»"
#: How names of files end that are tables.
TABLES = (".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".feather", ".xlsx", ".xls", ".ods")


def remedy(line: str, said: str) -> str:
    """Return what to do about a line, "" where that is not known.

    Parameters
    ----------
    line
        The line at which the parser stopped.
    said
        The parser's words.

    Examples
    --------
    >>> remedy("name = spring", "Invalid value")
    'Put text in straight quotes: name = "spring".'
    >>> remedy("floor = 0,01", "Expected newline")
    'Write 0.01 with a point.'
    """
    setting, _, given = (part.strip() for part in line.partition("="))
    if any(quote in line for quote in CURLY):
        return 'Put text in straight quotes (").'
    if re.search("overwrite|twice|mutate|already", said, re.IGNORECASE):
        name = setting.strip("[] ") or "this"
        return f"{name} is set twice; leave one of the two out."
    if decimal := re.match(r"([+-]?\d+),(\d+)\s*(#.*)?$", given):
        return f"Write {decimal[1]}.{decimal[2]} with a point."
    if given.lower() in ("true", "false"):
        return f"Write {given.lower()} in small letters."
    if re.match(r"[^\W\d][^\"'\[\]{}#=]*$", given):
        return f'Put text in straight quotes: {setting} = "{given}".'
    if (given.count('"') % 2 or given.count("'") % 2) and "illegal character" in said.lower():
        return "Close the quotes on the same line."
    if not given and (named := re.match(r"([\w-]+)\s*:\s*\S", line)):
        return f"Write {named[1]} = ... with an equals sign."
    if "unclosed array" in said.lower():
        return "Close the list with ]."
    return ""


def is_table(name: str, text: str = "") -> bool:
    """Say whether a file is one of units or outcomes, by its name or its first line.

    >>> is_table("customers.csv"), is_table("x", "id;age"), is_table("x", "name = 'a,b'")
    (True, True, False)
    """
    if name.lower().endswith(TABLES):
        return True
    first = next((line for line in text.splitlines() if line.strip()), "")
    return bool(re.search(r"[,;\t|]", first)) and not re.search(r"[=\[#]", first)
