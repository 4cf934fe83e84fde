"""SQL statements built from stages: each is a query over the previous one."""

from collections.abc import Sequence

from seqbatch.campaign.files.ids import BAR
from seqbatch.campaign.warehouse.dialects import SqlDialect
from seqbatch.campaign.warehouse.features import Item
from seqbatch.core.arrays import Floats
from seqbatch.errors import CampaignStateError


class Stages:
    """The stages of an SQL statement, in order."""

    def __init__(self, sql: SqlDialect) -> None:
        self._sql = sql
        self._made: list[tuple[str, str]] = []
        self._once = set[str]()

    @property
    def last(self) -> str:
        """The name of the newest stage."""
        return self._made[-1][0]

    def add(
        self,
        name: str,
        items: Sequence[Item],
        *,
        source: str = "",
        after: str = "",
        once: bool = False,
    ) -> None:
        """Add a stage.

        Parameters
        ----------
        name
            The stage's name in later stages.
        items
            Expressions and their names.
        source
            The table or stage to read; if empty, the previous stage.
        after
            The clauses after the source: joins, conditions, groups.
        once
            Whether the database must compute the stage before those that read it: where it puts
            their expressions together instead, long chains of stages grow without bound.
        """
        if once:
            self._once.add(name)
        text = self._selected(items, source or self.last, after)
        fence = f"\n{self._sql.fence}" if self._sql.fence else ""
        self._made.append((name, text + fence))

    def statement(self, items: Sequence[Item], *, after: str = "") -> str:
        """Return the statement that selects these items from the last stage."""
        stages = ",\n".join(
            f"{name} AS {self._sql.once if name in self._once else ''}(\n{_indented(text)}\n)"
            for name, text in self._made
        )
        return f"WITH\n{stages}\n{self._selected(items, self.last, after)}\n"

    def _selected(self, items: Sequence[Item], source: str, after: str) -> str:
        """Return one query; refuse one with more columns than the database takes."""
        if len(items) > self._sql.columns:
            raise CampaignStateError(
                f"the statement would have a stage of {len(items):,} columns, but "
                f"{self._sql.name} allows at most {self._sql.columns:,}. Use fewer features, or "
                "assign, record and close.",
                code="not-in-sql",
            )
        lines = [name if text == name else f"{text} AS {name}" for text, name in items]
        parts = ["SELECT\n" + ",\n".join(f"  {line}" for line in lines), f"FROM {source}"]
        return "\n".join([*parts, after] if after else parts)


def named(*names: str) -> list[Item]:
    """Return columns that are passed on unchanged."""
    return [(name, name) for name in names]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def id_of(sql: SqlDialect, columns: Sequence[str]) -> str:
    """Return the expression that joins text columns into one id."""
    if len(columns) == 1:
        return columns[0]
    back, bar = sql.text("\\"), sql.text(BAR)
    marked = [
        f"REPLACE(REPLACE({column}, {back}, {sql.text(chr(92) * 2)}), "
        f"{bar}, {sql.text(chr(92) + BAR)})"
        for column in columns
    ]
    return f" || {bar} || ".join(marked)


def total(sql: SqlDialect, vector: Sequence[str], weights: Floats) -> str:
    """Return the dot product of two vectors as a flat sum, without terms of weight 0."""
    terms = [
        f"{name} * {sql.number(weight)}"
        for name, weight in zip(vector, weights.tolist(), strict=True)
        if weight != 0
    ]
    return summed([sql.number(0.0), *terms])


def summed(terms: Sequence[str]) -> str:
    """Return a sum without parentheses: databases add from left to right."""
    return "\n  + ".join(terms) if len(terms) > 4 else " + ".join(terms)
