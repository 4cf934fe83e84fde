"""One statement out of stages, each a query over the one before."""

from collections.abc import Sequence

from seqbatch.campaign.warehouse.columns import Item
from seqbatch.campaign.warehouse.dialects import Dialect
from seqbatch.errors import CampaignStateError


class Stages:
    """The stages of a statement, in order."""

    def __init__(self, sql: Dialect) -> None:
        self._sql = sql
        self._made: list[tuple[str, str]] = []

    @property
    def last(self) -> str:
        """The name of the newest stage."""
        return self._made[-1][0]

    def add(self, name: str, items: Sequence[Item], *, source: str = "", after: str = "") -> None:
        """Add a stage.

        Parameters
        ----------
        name
            What later stages call it.
        items
            Expressions and their names.
        source
            What it reads, the stage before where empty.
        after
            What stands after the source: joins, conditions, groups.
        """
        text = self._selected(items, source or self.last, after)
        fence = f"\n{self._sql.fence}" if self._sql.fence else ""
        self._made.append((name, text + fence))

    def statement(self, items: Sequence[Item], *, after: str = "") -> str:
        """Return the statement that selects these of the last stage."""
        stages = ",\n".join(f"{name} AS (\n{_indented(text)}\n)" for name, text in self._made)
        return f"WITH\n{stages}\n{self._selected(items, self.last, after)}\n"

    def _selected(self, items: Sequence[Item], source: str, after: str) -> str:
        """Return one query, refusing one of more columns than the database takes."""
        if len(items) > self._sql.columns:
            raise CampaignStateError(
                f"the statement would have a stage of {len(items):,} columns, and {self._sql.name} "
                f"takes at most {self._sql.columns:,}. Use fewer features, or assign, record and "
                "close."
            )
        lines = [name if text == name else f"{text} AS {name}" for text, name in items]
        parts = ["SELECT\n" + ",\n".join(f"  {line}" for line in lines), f"FROM {source}"]
        return "\n".join([*parts, after] if after else parts)


def named(*names: str) -> list[Item]:
    """Return columns that are passed on as they are."""
    return [(name, name) for name in names]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
