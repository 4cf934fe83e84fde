"""The metrics and the objective of a spec, for tests."""


def about(name, /, *, direction="max", metrics=None, **settings):
    """Return the settings of a campaign about one metric, with further metrics beside it."""
    verb = "maximise" if direction == "max" else "minimise"
    return {
        "metrics": {name: settings, **(metrics or {})},
        "objective": {verb: name},
    }


def profit(name, /, *, currency="EUR", **settings):
    """Return the settings of a campaign about an amount of money, less the costs of actions."""
    made = about(name, unit=currency, **settings)
    return {**made, "currency": currency, "objective": {**made["objective"], "less_costs": True}}
