"""The metrics and the objective of a spec, for tests."""


def about(name, /, *, direction="max", metrics=None, value=None, less_costs=None, **settings):
    """Return the settings of a campaign about one metric, with further metrics beside it."""
    verb = "maximise" if direction == "max" else "minimise"
    money = {"value": value, "less_costs": less_costs}
    return {
        "metrics": {name: settings, **(metrics or {})},
        "objective": {verb: name, **{key: one for key, one in money.items() if one is not None}},
    }


def profit(name, /, *, currency="EUR", **settings):
    """Return the settings of a campaign about an amount of money, less the costs of actions."""
    return {**about(name, unit=currency, less_costs=True, **settings), "currency": currency}
