"""Guardrails, literally: Holm's steps one after the other, each by an interval at its own level."""


def judged(questions, alpha):
    """Return the verdict, the level and the adjusted p-value of each question.

    A question has p (two-sided, of the bound), estimate, bound, upper, and few. The smallest
    p-value is tested at alpha/m, the next at alpha/(m - 1), and so on until one is not below.
    """
    left = dict(enumerate(questions))
    made, largest, stopped = {}, 0.0, False
    while left:
        place = min(left, key=lambda one: (left[one]["p"], one))
        one, share = left[place], alpha / len(left)
        largest = max(largest, min(1.0, len(left) * one["p"]))
        if not stopped and one["p"] >= share:
            stopped, level = True, 1 - share
        if not stopped:
            level = 1 - share
        made[place] = (verdict(one, decided=not stopped), level, largest)
        del left[place]
    return [made[place] for place in range(len(questions))]


def verdict(one, decided):
    if one["few"]:
        return "too-few-events"
    if not decided:
        return "not-clear"
    if one["upper"]:
        return "kept" if one["estimate"] < one["bound"] else "broken"
    return "kept" if one["estimate"] > one["bound"] else "broken"
