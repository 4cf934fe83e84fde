"""Pages that a browser opens without a network: their frame, and tables."""

import html
from collections.abc import Iterable, Sequence

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222 }}
p {{ margin: .5rem 0 }}
table {{ border-collapse: collapse; margin: 1rem 0 }}
th, td {{ border-bottom: 1px solid #ccc; padding: .25rem .75rem; text-align: right }}
svg {{ max-width: 100%; height: auto }}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Return a page. The title is plain text; the parts are HTML already."""
    return PAGE.format(title=html.escape(title), body="\n".join(parts))


def paragraphs(text: str) -> str:
    """Return each line of a plain text as a paragraph.

    >>> paragraphs("a < b")
    '<p>a &lt; b</p>'
    """
    return "\n".join(f"<p>{html.escape(line.strip())}</p>" for line in text.splitlines())


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of plain texts under its title."""
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    lines = "\n".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<h2>{html.escape(title)}</h2>\n<table><tr>{top}</tr>\n{lines}</table>"
