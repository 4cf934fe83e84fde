"""The table of assignments: who had which action in which wave, in the database itself.

It keeps the waves apart. A statement takes only units that are not in it, `--write` inserts the
wave into it, and the sums are computed from the decisions and columns that it holds.
"""

from dataclasses import dataclass
from functools import cached_property

from seqbatch.campaign.decide.draws import DIGITS, lots_key, marks_key
from seqbatch.campaign.features.boolean import BooleanFeature
from seqbatch.campaign.features.date import DateFeature
from seqbatch.campaign.features.numeric import NumericFeature
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.warehouse.dialects import SqlDialect
from seqbatch.campaign.warehouse.features import Item, beside, columns_of
from seqbatch.campaign.warehouse.stages import Stages, id_of, named, summed

#: The digits of a mark, an md5 of a unit's id: where each of its four numbers begins and ends.
MARK_DIGITS = ((0, 8), (8, 16), (16, 24), (24, 32))
#: Their sums over units are the fingerprint of a wave's ids, whatever the order of rows.
MARKS = tuple(f"mark{place}" for place in range(len(MARK_DIGITS)))
#: The columns of a decision, in the table of assignments.
DECISION = ("action", "campaign", "wave", "score", "probability", "randomised")


def stored_name(column: str) -> str:
    """Return the name of a unit's column in the table of assignments."""
    return f"feature_{column}"


def label_of(now: Situation) -> str:
    """Return what the column `campaign` holds: the name, and digits that its namesakes lack."""
    return f"{now.name} {marks_key(now.spec.seed, now.name)[:12]}"


def marks_in(sql: SqlDialect, digest: str) -> list[Item]:
    """Return the four numbers of a mark."""
    return [
        (sql.digits(digest, *ends), name) for name, ends in zip(MARKS, MARK_DIGITS, strict=True)
    ]


def mark_of(now: Situation, sql: SqlDialect, joined: str) -> str:
    """Return the md5 that marks a unit, from its id."""
    return sql.md5(f"{sql.text(marks_key(now.spec.seed, now.name))} || {joined}")


#: A unit's three random draws.
DRAWS = ("draw_randomised", "draw_choice", "draw_place")


def draws_in(sql: SqlDialect, digest: str) -> list[Item]:
    """Return the random draws in a unit's md5."""
    made = []
    for name, (start, stop) in zip(DRAWS, DIGITS, strict=True):
        size, whole = sql.number(0.5 ** (4 * (stop - start))), sql.digits(digest, start, stop)
        made.append((f"CAST({whole} AS {sql.double}) * {size}", name))
    return made


#: How far a draw may be beyond an action's share: more than rounding, less than any share.
ROUNDING = 1e-9


def as_drawn(now: Situation, sql: SqlDialect, action: str) -> str:
    """Return the condition that an action is the one that a unit's draws give it.

    It needs the draws, and the probabilities p0, p1 and so on: a table in which actions or ids were
    exchanged does not meet it. `action` is the action's place among the active ones.
    """
    every, near = range(len(now.active)), sql.number(ROUNDING)
    share, rest = sql.number(now.randomised), sql.number(1 - now.randomised)
    some = [f"CASE WHEN p{a} > 0 THEN {sql.number(1.0)} ELSE {sql.number(0.0)} END" for a in every]
    blind = [f"({own}) / ({' + '.join(some)})" for own in some]
    chosen = [f"(p{a} - {share} * {own}) / {rest}" for a, own in zip(every, blind, strict=True)]
    ends = blind, chosen if now.randomised < 1 else blind
    cases = " ".join(
        f"WHEN {a} THEN "
        + " ELSE ".join(
            f"{lead}draw_choice > {summed([sql.number(0.0), *own[:a]])} - {near} AND "
            f"draw_choice < {summed([sql.number(0.0), *own[: a + 1]])} + {near}"
            for lead, own in zip(("CASE WHEN randomised = 1 THEN ", ""), ends, strict=True)
        )
        + " END"
        for a in every
    )
    drawn = f"CASE WHEN draw_randomised < {share} THEN 1 ELSE 0 END"
    return f"randomised = {drawn} AND CASE {action} {cases} END"


@dataclass(frozen=True)
class AssignmentsTable:
    """A campaign's table of assignments.

    Parameters
    ----------
    now, sql
        The campaign's situation, and the dialect.
    name
        The table, as table or schema.table.
    """

    now: Situation
    sql: SqlDialect
    name: str

    @property
    def table(self) -> str:
        """The quoted name."""
        return self.sql.table(self.name)

    @property
    def label(self) -> str:
        """What the column `campaign` holds, as a literal."""
        return self.sql.text(label_of(self.now))

    @property
    def here(self) -> str:
        """The condition that a row is of the open wave."""
        return f"wave = {self.now.wave} AND campaign = {self.label}"

    def other(self, prefix: str = "") -> str:
        """Return the condition that a row is of another wave, or of another campaign."""
        pairs = {"wave": str(self.now.wave), "campaign": self.label}
        return " OR ".join(
            f"{prefix}{name} <> {value} OR {prefix}{name} IS NULL" for name, value in pairs.items()
        )

    @cached_property
    def features(self) -> dict[str, tuple[str, str]]:
        """The alias of each column that the model reads: its name in the table, and its type."""
        sql, parts = self.sql, self.now.encoder(wave=self.now.wave).parts.items()
        made = {}
        for (_, alias), (name, part) in zip(
            columns_of(self.now.encoder(wave=self.now.wave), sql).read, parts, strict=True
        ):
            kind = sql.string
            if isinstance(part, NumericFeature):
                kind = sql.double
            elif isinstance(part, BooleanFeature):
                kind = "BOOLEAN"
            elif isinstance(part, DateFeature):
                kind = "DATE"
            made[alias] = (sql.name_of(stored_name(name)), kind)
        return made

    @cached_property
    def stored(self) -> dict[str, tuple[str, str]]:
        """All columns that decisions depend on: those of the model, and of eligibility rules."""
        sql, encoder = self.sql, self.now.encoder(wave=self.now.wave)
        kinds = {"number": sql.double, "text": sql.string, "yes or no": "BOOLEAN"}
        return self.features | {
            f"r{number}": (sql.name_of(stored_name(name)), kinds[kind])
            for number, (name, kind) in enumerate(beside(encoder).items())
        }

    @cached_property
    def columns(self) -> dict[str, str]:
        """The table's columns and their types."""
        sql, chances = self.sql, [f"p{action}" for action in range(len(self.now.active))]
        kinds = (sql.string, sql.string, sql.whole, sql.double, sql.double, sql.whole)
        decision = dict(zip(DECISION, kinds, strict=True))
        return {
            **{sql.name_of(name): sql.string for name in self.now.spec.unit},
            **decision,
            **dict.fromkeys(chances, sql.double),
            "part": sql.whole,
            **dict(self.stored.values()),
        }

    def created(self) -> str:
        """Return the script that creates the table where there is none.

        Where actions were added, it also adds the columns of their probabilities.
        """
        lines = ",\n".join(f"  {name} {kind}" for name, kind in self.columns.items())
        made = f"CREATE TABLE IF NOT EXISTS {self.table} (\n{lines}\n);\n"
        for name in self.more if self.sql.widens else ():
            column = f"{name} {self.sql.double}"
            made += f"ALTER TABLE {self.table} ADD COLUMN IF NOT EXISTS {column};\n"
        return made

    @property
    def more(self) -> list[str]:
        """The probabilities for which the table had no column when it was created."""
        return [f"p{a}" for a in range(len(self.now.spec.actions), len(self.now.active))]

    def inserted(self, selected: str) -> str:
        """Return the script that inserts the rows of a query, one session at a time."""
        insert = f"INSERT INTO {self.table} (\n  {', '.join(self.columns)}\n)\n{selected};\n"
        if not self.sql.lock:
            return insert
        return f"BEGIN;\nLOCK TABLE {self.table} IN {self.sql.lock} MODE;\n{insert}COMMIT;\n"

    def counted(self) -> str:
        """Return the query that counts the wave's units, and fails if it has none."""
        sql, wave = self.sql, self.now.wave
        said = sql.text(f" units are in wave {wave}: no unit without an action was found")
        none = sql.fail(f"{sql.as_text('COUNT(*)')} || {said}")
        return (
            f"SELECT CASE WHEN COUNT(*) = 0 THEN {none} ELSE COUNT(*) END AS units\n"
            f"FROM {self.table} WHERE {self.here}"
        )

    def ids(self, prefix: str = "") -> list[str]:
        """Return the expressions of the id's columns, as texts."""
        return [self.sql.as_text(prefix + self.sql.name_of(name)) for name in self.now.spec.unit]

    def held(self, ids: list[str], where: str = "") -> str:
        """Return the condition that the table holds a unit, in rows that meet a condition."""
        pairs = [f"{left} = {right}" for left, right in zip(self.ids("held."), ids, strict=True)]
        met = " AND ".join([*pairs, where] if where else pairs)
        return f"EXISTS (SELECT 1 FROM {self.table} AS held WHERE {met})"

    def add_others(self, stages: Stages) -> None:
        """Add the stage that tells whether the table's other waves are those on record.

        Its one row has `altered`, 1 if they are not, and `others`, how many units they have.
        """
        sql, now = self.sql, self.now
        digest = mark_of(now, sql, id_of(sql, self.ids()))
        others = f"WHERE {self.other()}"
        stages.add("other_waves", [(digest, "digest")], source=self.table, after=others)
        stages.add("others", [("COUNT(*)", "others"), *(
            (f"COALESCE({sql.sum(text)}, 0)", name) for text, name in marks_in(sql, "digest")
        )])  # fmt: skip
        wanted = {"others": sum(now.units[: now.wave - 1])}
        wanted |= dict(zip(MARKS, now.marks, strict=True))
        same = " AND ".join(f"{name} = {number}" for name, number in wanted.items())
        altered = f"CASE WHEN {same} THEN 0 ELSE 1 END"
        if now.spec.rows == "here":
            # The campaign has its own list of units.
            altered = "0"
        stages.add("recorded", [(altered, "altered"), *named("others")])


# ----------------------------------------------------------------------
# Who enters the wave: units without an action so far, in the order of a keyed hash.


@dataclass(frozen=True)
class WaveEntry:
    """Which units of a table enter the open wave.

    Parameters
    ----------
    table
        The table of assignments.
    units
        The table of units.
    partial
        Whether the wave may have fewer units than planned.
    write
        Whether the wave is inserted into the table of assignments: a second time, nothing is.
    """

    table: AssignmentsTable
    units: str
    partial: bool
    write: bool

    @property
    def size(self) -> int | None:
        """The wave's planned size; None if it has none."""
        now = self.table.now
        return None if now.spec.grid.calendar else now.sizes[now.wave - 1]

    def add(self, stages: Stages, ids: list[str], read: list[str]) -> None:
        """Add the stages that take the wave's units from the stage before.

        The one row of the stage `checked` has `verdict`: 0 if the units are the wave's, 1 if they
        were inserted before. It fails with the reason where something is wrong.
        """
        table, now, sql = self.table, self.table.now, self.table.sql
        before = sum(now.units[: now.wave - 1])
        key = sql.text(lots_key(now.spec.seed, now.name, before=before))
        joined = id_of(sql, ids)
        lot = sql.md5(f"{key} || {joined}")
        stages.add(
            "offered",
            [*named(*ids, *read), (joined, "id"), (lot, "lot")],
            after=f"WHERE NOT {table.held(ids)}",
        )
        nameless = " OR ".join(f"{each} IS NULL OR {each} = ''" for each in ids)
        stages.add("counted", [
            ("COUNT(*)", "offered_units"), ("COUNT(id) - COUNT(DISTINCT id)", "repeated"),
            (f"COALESCE(SUM(CASE WHEN {nameless} THEN 1 ELSE 0 END), 0)", "nameless"),
        ])  # fmt: skip
        table.add_others(stages)
        here = f"WHERE {table.here}"
        stages.add("entered", [("COUNT(*)", "already")], source=table.table, after=here)
        crossed = "CROSS JOIN counted CROSS JOIN recorded"
        stages.add("checked", [(self._verdict(), "verdict")], after=crossed)
        size = "" if self.size is None else f"ORDER BY lot\nLIMIT {self.size}"
        stages.add("taken", named(*ids, *read, "id"), source="offered", after=size)

    def _verdict(self) -> str:
        """Return 0 if all is well; fail with the first reason otherwise."""
        sql, now = self.table.sql, self.table.now
        recorded = sum(now.units[: now.wave - 1])

        def failing(count: str, said: str) -> str:
            return sql.fail(f"{sql.as_text(count)} || {sql.text(f' {said}')}")

        lines = []
        if self.write:
            lines.append("WHEN already > 0 THEN 1")
        else:
            said = (
                f"units are in wave {now.wave} of {self.table.name} already: it was assigned before"
            )
            lines.append(f"WHEN already > 0 THEN {failing('already', said)}")
        other = (
            f"units of other waves or campaigns are in {self.table.name}; there should be the "
            f"{recorded} units of the earlier waves, as recorded. Use the campaign's own table"
        )
        lines.append(f"WHEN altered = 1 THEN {failing('others', other)}")
        without = f"rows of {self.units} have no id"
        lines.append(f"WHEN nameless > 0 THEN {failing('nameless', without)}")
        twice = f"rows of {self.units} repeat a unit: keep one row of each"
        lines.append(f"WHEN repeated > 0 THEN {failing('repeated', twice)}")
        if self.size is not None and not self.partial:
            few = (
                f"units of {self.units} have no action yet, fewer than the {self.size} of wave "
                f"{now.wave}: add units, or write the statement with the option partial"
            )
            lines.append(f"WHEN offered_units < {self.size} THEN {failing('offered_units', few)}")
        joined = "\n    ".join(lines)
        return f"CASE\n    {joined}\n    ELSE 0\n  END"
