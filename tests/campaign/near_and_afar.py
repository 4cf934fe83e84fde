"""The same campaign twice: with its rows in a database, summed up there, and with its rows here."""

import json

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from tests.campaign.warehouses import ELSEWHERE, customers, visits

#: What sums do not have, and what the sums that close a wave round.
APART = {"lacking", "splits", "tree", "clipped", "expected", "allocation_p"}


class Pair:
    """The same campaign twice: in a database, and with its rows."""

    def __init__(self, stores, shop, folder, *, sizes=(600, 400), among=None, **changes):
        spec = {**ELSEWHERE, "grid": {"sizes": list(sizes)}, **changes}
        self.afar = Campaign.create(spec, store=stores[0])
        self.near = Campaign.create({**spec, "rows": "here"}, store=stores[1])
        self.shop, self.folder, self.told, self.among = shop, folder, [], among
        self.learns = bool(self.afar.situation().spec.features.learning)

    def statement(self, what):
        """Return a statement, and its file."""
        tables = {"assignments": "afar_units"} | (
            {} if what == "scaling" else {"outcomes": "visits"}
        )
        text = self.afar.sql(what=what, dialect=self.shop.dialect, **tables)
        path = self.folder / f"{what}-{self.afar.situation().sequence}.sql"
        path.write_text(text, encoding="utf-8")
        return text, path

    def both(self, call, **options):
        """Make the same call of both campaigns."""
        for campaign in (self.afar, self.near):
            getattr(campaign, call)(**options)

    def assign(self):
        """Return the script that assigns the next wave."""
        return self.afar.sql(
            units="customers", assignments="afar_units", write=True, dialect=self.shop.dialect
        )

    def wave(self):
        """Run a wave in both, and close it; one unit in ten has no outcome."""
        now = self.afar.situation()
        units = customers(2 * now.sizes[now.wave - 1], seed=now.wave)
        units = units.filter(self.among if self.among is not None else True)
        units = units.head(now.sizes[now.wave - 1])
        self.shop.put("customers", units)
        self.shop.run(self.assign())
        given = pl.from_arrow(self.near.assign(units).table)
        known = given.filter(~pl.col("id").str.ends_with("7"))
        self.told.append(visits(known["id"], known["action"], seed=now.wave))
        self.near.record(self.told[-1])
        near = self.near.close()
        self.shop.put("visits", pl.concat(self.told))
        if now.wave == 1 and self.learns:
            self.pass_over("scaling")
        return self.pass_over("sums").closed, near

    def pass_over(self, what):
        """Run a statement, and record its result."""
        text, path = self.statement(what)
        return self.afar.record_sums(self.shop.run(text), statement=path)

    def sum_up(self):
        """Run every statement that findings need; return the answers."""
        made = [self.pass_over("findings")]
        while not made[-1].complete:
            made.append(self.pass_over("findings"))
        return made

    def require_alike(self):
        """Compare the findings of both."""
        both = [json.loads(json.dumps(one.findings().plain())) for one in (self.afar, self.near)]
        if found := list(differences(*both)):
            pytest.fail(f"findings differ: {found}")


def differences(one, other, place=""):
    """Yield where two findings differ by more than 1e-9."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one.keys() | other.keys():
            if name not in APART:
                yield from differences(one.get(name), other.get(name), f"{place}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif isinstance(one, float) and isinstance(other, float):
        # The spread of lifts, and that of actions, is found by a search, which stops near it; the
        # estimate of the selected action follows from it.
        searched = (".spread", "decision.total.estimate")
        near = 1e-6 if place.endswith(searched) else 1e-9
        if one != pytest.approx(other, rel=near, abs=near):
            yield place, one, other
    elif one != other:
        yield place, one, other
