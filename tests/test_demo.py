"""The demo itself runs by `make demo`; what it declares is read here."""

import runpy
from pathlib import Path

from seqbatch.campaign.design.toml import parse_spec

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_the_demo_declares_a_campaign():
    text = runpy.run_path(str(DEMO))["SPEC"]
    spec = parse_spec(text.format(units=64_000, waves=3, effect=0.03, noise=0.35))
    assert spec.control == "No E-Mail"
