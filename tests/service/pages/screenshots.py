"""Make the pictures of the dashboard that the documentation shows.

Run it by `python -m tests.service.pages.screenshots`; it needs Chromium.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from seqbatch.campaign import Campaign
from tests.campaign.specs import about
from tests.service.pages.browsing import Tab, started
from tests.service.running import running

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
SPEC = {
    "name": "spring-mail", "seed": 7, "unit": "customer", "actions": ["none", "mail", "call"],
    "control": "none", "randomised": 0.1, "grid": {"sizes": [600, 1200, 2400]},
    **about("spend", unit="EUR"), "policy": {"kind": "RBGL"},
    "features": {"numeric": {"age": "learn", "orders": "learn"}}, "required_outcomes": 0.8,
}  # fmt: skip
MEANS = {"none": 2.0, "mail": 3.4, "call": 3.0}


def run_wave(campaign, random, *, start, count, share):
    """Assign made-up customers and record the made-up spending of a share of them."""
    units = pl.DataFrame(
        {
            "customer": [f"c{start + number}" for number in range(count)],
            "age": random.integers(18, 80, count),
            "orders": random.poisson(3, count),
        }
    )
    given = pl.from_arrow(campaign.assign(units).table)
    means = given["action"].replace_strict(MEANS).to_numpy()
    spend = np.maximum(0, random.normal(means, 2.0))
    outcomes = pl.DataFrame({"customer": given["customer"], "spend": spend})
    campaign.record(outcomes.filter(pl.Series(random.random(count) < share)))


def main():
    """Run a campaign up to its third wave, and take its pictures."""
    random = np.random.default_rng(3)
    with TemporaryDirectory() as folder, running(Path(folder) / "c.db") as service:
        campaign = Campaign.create(SPEC, store=service.store, who="ann")
        run_wave(campaign, random, start=0, count=600, share=0.95)
        campaign.close()
        run_wave(campaign, random, start=600, count=1200, share=0.93)
        campaign.close()
        run_wave(campaign, random, start=1800, count=2400, share=0.5)
        service.token("ann", role="operator")
        with started() as browser:
            for name, options in (
                ("dashboard", {"viewport": {"width": 1100, "height": 1120}}),
                ("dashboard-phone",
                 {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}),
            ):  # fmt: skip
                tab = Tab(browser, service, **options).sign_in("ann")
                tab.page.goto(f"/campaigns/{campaign.name}")
                tab.page.screenshot(path=PICTURES / f"{name}.png")
                tab.close()


if __name__ == "__main__":
    main()
