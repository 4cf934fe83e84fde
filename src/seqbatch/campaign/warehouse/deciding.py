"""The stages that decide: draws, scores, probabilities, actions.

Each is the arithmetic of `decide` in the same order, with flat sums, so that any database that adds
and multiplies as IEEE 754 says gets the same bits.
"""

from collections.abc import Sequence

from seqbatch.campaign.deciding.draws import DIGITS, md5_key
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.tables.ids import BAR
from seqbatch.campaign.warehouse.columns import Columns, Item, columns_of
from seqbatch.campaign.warehouse.dialects import Dialect
from seqbatch.campaign.warehouse.rule import Rule
from seqbatch.campaign.warehouse.stages import Stages, named
from seqbatch.core.arrays import Floats

#: The three draws of a unit.
DRAWS = ("draw_randomised", "draw_choice", "draw_place")


class Deciding:
    """The stages up to the decisions of the units of one table.

    Parameters
    ----------
    now, rule
        Where the campaign stands, and the open wave's rule.
    sql
        The dialect.
    units
        The table of units.
    keep
        Whether the numbers of the model are passed on to the last stage.
    """

    def __init__(self, now: Situation, rule: Rule, sql: Dialect, units: str, *, keep: bool) -> None:
        self._now, self._rule, self._sql = now, rule, sql
        self._K = len(now.active)
        self.columns: Columns = columns_of(now.encoder(wave=now.wave), sql)
        self.kept = self.columns.vector if keep else []
        self.ids = [f"u{place}" for place in range(len(now.spec.unit))]
        self.stages = Stages(sql)
        self._given(units)
        self._drawn()
        self._scored()
        self._weighed()
        self._decided()

    def _each(self, prefix: str) -> list[str]:
        return [f"{prefix}{action}" for action in range(self._K)]

    def _given(self, units: str) -> None:
        """Read the columns, and find each unit's md5."""
        sql, spec, columns = self._sql, self._now.spec, self.columns
        ids = [
            (sql.as_text(sql.name_of(name)), alias)
            for name, alias in zip(spec.unit, self.ids, strict=True)
        ]
        self.stages.add("given", [*ids, *columns.read], source=sql.table(units))
        key = sql.text(md5_key(spec.seed, spec.name))
        read = [alias for _, alias in columns.read]
        joined = id_of(sql, self.ids)
        known = [(joined, "id"), (sql.md5(f"{key} || {joined}"), "digest")]
        self.stages.add("known", [*named(*self.ids), *known, *named(*read), *columns.levels])

    def _drawn(self) -> None:
        """Make draws of the md5, and numbers of the columns; say what is wrong with a unit."""
        sql, columns = self._sql, self.columns
        draws = []
        for name, (start, stop) in zip(DRAWS, DIGITS, strict=True):
            size = sql.number(0.5 ** (4 * (stop - start)))
            whole = sql.digits("digest", start, stop)
            draws.append((f"CAST({whole} AS {sql.double}) * {size}", name))
        missing = [(f"{alias} IS NULL OR {alias} = ''", "an id is missing") for alias in self.ids]
        cases = " ".join(
            f"WHEN {condition} THEN {sql.text(why)}"
            for condition, why in (*missing, *columns.problems)
        )
        problem = (f"CASE {cases} END", "problem")
        self.stages.add("drawn", [*self._base(), problem, *draws, *columns.base])
        if columns.crossed:
            own = [alias for _, alias in columns.base]
            more = [*named("problem", *DRAWS, *own), *columns.crossed]
            self.stages.add("crossed", [*self._base(), *more])

    def _base(self) -> list[Item]:
        return named(*self.ids, "id")

    def _scored(self) -> None:
        """Score every action."""
        sql, rule, vector = self._sql, self._rule, self.columns.vector
        kept = named("problem", *DRAWS, *self.kept)
        means = [(total(sql, vector, rule.theta[a]), f"s{a}") for a in range(self._K)]
        if rule.root is None:
            self.stages.add("scored", [*self._base(), *kept, *means])
            return
        # The width is the length of root times x: first its parts, then their squares.
        parts = [
            (total(sql, vector[: row + 1], rule.root[a, row, : row + 1]), f"w{a}_{row}")
            for a in range(self._K)
            for row in range(len(vector))
        ]
        means = [(text, f"m{a}") for a, (text, _) in enumerate(means)]
        self.stages.add("rooted", [*self._base(), *kept, *means, *parts])
        scores = []
        for a in range(self._K):
            squares = [f"w{a}_{row} * w{a}_{row}" for row in range(len(vector))]
            width = f"SQRT({summed([sql.number(0.0), *squares])})"
            scores.append((f"m{a} + {sql.number(rule.gamma)} * {width}", f"s{a}"))
        self.stages.add("scored", [*self._base(), *kept, *scores])

    def _weighed(self) -> None:
        """Give every action its probability among units that are not randomised."""
        sql, rule, K = self._sql, self._rule, self._K
        kept = named("problem", *DRAWS, *self.kept, *self._each("s"))
        floor = self._now.floor
        # K floors are set aside first, as in Python, in the same order of operations.
        rest = 1 - K * floor
        if rule.constant is not None:
            mixed = [sql.number(floor + rest * p) for p in rule.constant]
            self._mixed(kept, mixed)
            return
        among = [f"s{action}" for action in rule.candidates]
        best = among[0] if len(among) == 1 else f"GREATEST({', '.join(among)})"
        self.stages.add("ranked", [*self._base(), *kept, (best, "best")])
        if rule.random_ties:
            equals = " + ".join(f"CASE WHEN {score} = best THEN 1 ELSE 0 END" for score in among)
            share = f"{sql.number(1.0)} / CAST(({equals}) AS {sql.double})"
            wins = [(score, share) for score in among]
        else:
            wins = [(score, sql.number(1.0)) for score in among]
            first = " ".join(f"WHEN {score} = best THEN {score[1:]}" for score in among)
            self.stages.add("picked", [*self._base(), *kept, (f"CASE {first} END", "best")])
        chances = dict(wins)
        mixed = []
        for action in range(K):
            if (score := f"s{action}") not in chances:
                mixed.append(sql.number(floor))
                continue
            won = f"{score} = best" if rule.random_ties else f"best = {action}"
            p = f"CASE WHEN {won} THEN {chances[score]} ELSE {sql.number(0.0)} END"
            mixed.append(f"{sql.number(floor)} + {sql.number(rest)} * {p}")
        self._mixed(kept, mixed)

    def _mixed(self, kept: list[Item], mixed: list[str]) -> None:
        self.stages.add(
            "weighed", [*self._base(), *kept, *zip(mixed, self._each("q"), strict=True)]
        )

    def _decided(self) -> None:
        """Pick actions by the draws, and log the probability of each."""
        sql, K, now = self._sql, self._K, self._now
        share, mixed = now.spec.randomised, self._each("q")
        kept = named("problem", *DRAWS, *self.kept, *self._each("s"))
        shares = [(summed(mixed[: action + 1]), f"t{action}") for action in range(K)]
        logged = [
            (f"{sql.number(share / K)} + {sql.number(1 - share)} * {each}", f"p{action}")
            for action, each in enumerate(mixed)
        ]
        last = " ".join(f"WHEN q{action} > 0 THEN {action}" for action in reversed(range(K)))
        more = [*shares, *logged, (f"CASE {last} END", "last_possible")]
        self.stages.add("shared", [*self._base(), *kept, *more])
        passed = " + ".join(
            f"CASE WHEN draw_choice * t{K - 1} >= t{action} THEN 1 ELSE 0 END"
            for action in range(K)
        )
        even = f"LEAST({sql.floor(f'draw_choice * {sql.number(float(K))}')}, {K - 1})"
        randomised = f"draw_randomised < {sql.number(share)}"
        chosen = f"CASE WHEN {randomised} THEN {even} ELSE LEAST({passed}, last_possible) END"
        # Who is refused gets nothing.
        action = f"CASE WHEN problem IS NULL THEN {chosen} END"
        self.stages.add(
            "decided",
            [
                *self._base(),
                *named("problem", *self.kept, *self._each("s"), *self._each("p")),
                (f"CASE WHEN {randomised} THEN 1 ELSE 0 END", "randomised"),
                (action, "chosen"),
                (self._group(), "part"),
            ],
        )

    def _group(self) -> str:
        """Return the part of the evidence that a unit's outcome enters."""
        sql, now = self._sql, self._now
        if self._rule.intervals is None:
            return "0"
        pieces, first = self._rule.intervals
        if pieces == 0:
            return "-1"
        size, waves = now.problem().size(now.wave), len(now.sizes)
        whole = sql.number(float(size))
        place = f"LEAST({sql.floor(f'draw_place * {whole}')}, {size - 1})"
        ends = f"CAST((({place} + 1) * {pieces} - 1) AS {sql.double})"
        interval = f"({sql.floor(f'{ends} / {whole}')} + {first})"
        return (
            f"CASE WHEN {interval} >= {now.wave - 1} AND {interval} < {waves - 1} "
            f"THEN {interval} ELSE -1 END"
        )


def id_of(sql: Dialect, columns: Sequence[str]) -> str:
    """Return the id that some columns of text are joined into."""
    if len(columns) == 1:
        return columns[0]
    back, bar = sql.text("\\"), sql.text(BAR)
    marked = [
        f"REPLACE(REPLACE({column}, {back}, {sql.text(chr(92) * 2)}), "
        f"{bar}, {sql.text(chr(92) + BAR)})"
        for column in columns
    ]
    return f" || {bar} || ".join(marked)


def total(sql: Dialect, vector: Sequence[str], weights: Floats) -> str:
    """Return the product of two vectors, term by term; a weight of 0 changes no bit."""
    terms = [
        f"{name} * {sql.number(weight)}"
        for name, weight in zip(vector, weights.tolist(), strict=True)
        if weight != 0
    ]
    return summed([sql.number(0.0), *terms])


def summed(terms: Sequence[str]) -> str:
    """Return a sum without brackets: databases take it from left to right."""
    return "\n  + ".join(terms) if len(terms) > 4 else " + ".join(terms)
