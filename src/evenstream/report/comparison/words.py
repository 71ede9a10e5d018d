"""Results in sentences that say no more than the seeds allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenstream.report.formats import count, plain, signed, verdict
from evenstream.report.html import code, spread


def lead(summary: Mapping[str, Any]) -> str:
    """Return the sentence at the top of the page."""
    if not summary:
        return "No run has finished yet, so there are no results to show."
    if len(summary) == 1:
        ((name, entry),) = summary.items()
        return _alone(name, entry)
    return _ranking(summary)


def _alone(name: str, entry: Mapping[str, Any]) -> str:
    """Sum up a single method."""
    text = (
        f"{code(name)} ended with an average accuracy of {_accuracy(entry)} over all tasks"
        f"{_over(entry)}"
    )
    loss = entry["F_T"]["mean"]
    if loss is None:
        return f"{text}."
    if loss < 0:
        return f"{text} and forgot nothing: earlier tasks improved by {-loss:.1f} points."
    return f"{text} and forgot {loss:.1f} points of its best accuracy on earlier tasks."


def _ranking(summary: Mapping[str, Any]) -> str:
    """Name the method with the highest accuracy and how sure its lead is."""
    best, second = sorted(summary, key=lambda name: -summary[name]["A_T"]["mean"])[:2]
    text = (
        f"{code(best)} ended with the highest average accuracy: {_accuracy(summary[best])}"
        f"{_over(summary[best])}."
    )
    ahead = _ahead(summary, best, second)
    if ahead is None:
        return f"{text} Next is {code(second)}, run on other seeds."
    mean, low, high = ahead
    if low is None or high is None:
        return f"{text} With one shared seed, its lead over {code(second)} could be luck."
    if low > 0:
        return (
            f"{text} It leads the next, {code(second)}, by {mean:.1f} points "
            f"(95&nbsp;% interval {low:.1f} to {high:.1f})."
        )
    return f"{text} Its lead over the next, {code(second)}, is too small to be sure of."


def _ahead(
    summary: Mapping[str, Any], a: str, b: str
) -> tuple[float, float | None, float | None] | None:
    """Return mean, low and high of a minus b in A_T, whichever came first in the summary."""
    for method, baseline in ((a, b), (b, a)):
        found = summary[method]["minus"].get(baseline)
        if found is None or found["A_T"] is None:
            continue
        mean, low, high = (found["A_T"][key] for key in ("mean", "low", "high"))
        if method == a or low is None:
            return (mean if method == a else -mean), low, high
        return -mean, -high, -low
    return None


def _accuracy(entry: Mapping[str, Any]) -> str:
    """Return a method's final accuracy in bold."""
    return f"<strong><span class=nowrap>{spread(entry['A_T'])} %</span></strong>"


def _over(entry: Mapping[str, Any]) -> str:
    """Say how many seeds there are, if several."""
    n = len(entry["seeds"])
    return f" over {n} seeds" if n > 1 else ""


def difference_sentence(method: str, baseline: str, difference: Mapping[str, Any]) -> str:
    """Say what the paired difference between two methods tells."""
    method, baseline = code(method), code(baseline)
    accuracy, loss = difference["A_T"], difference["F_T"]
    if accuracy is None:
        return f"{method} and {baseline} have no final accuracy on a shared seed."
    text = _more_accurate(method, baseline, accuracy)
    return f"{text}." if loss is None else f"{text}; {_forgets(method, loss)}."


def _more_accurate(method: str, baseline: str, found: Mapping[str, Any]) -> str:
    """Compare final accuracies."""
    points = f"{abs(found['mean']):.1f} points"
    higher = found["mean"] >= 0
    if found["low"] is None:
        return (
            f"{method} ended {points} {'above' if higher else 'below'} {baseline} on the one seed "
            "they share, which cannot show how much of that is luck"
        )
    interval = f"(95&nbsp;% interval {_span(found)}, {count(found['n'], 'seed')})"
    if verdict(found) == "no clear difference":
        return (
            f"<strong>No clear difference</strong> in accuracy between {method} and {baseline}: "
            f"{signed(found['mean'])} points on average {interval}"
        )
    return (
        f"{method} is <strong>{'more' if higher else 'less'} accurate</strong> than "
        f"{baseline}, by {points} on average {interval}"
    )


def _forgets(method: str, found: Mapping[str, Any]) -> str:
    """Compare forgetting."""
    amount = f"{abs(found['mean']):.1f} points {'less' if found['mean'] < 0 else 'more'}"
    if found["low"] is None:
        return f"{method} forgot {amount}"
    if found["low"] <= 0 <= found["high"]:
        mean = signed(found["mean"])
        return f"no clear difference in forgetting: {mean} points ({_span(found)})"
    return f"{method} forgets {amount} ({_span(found)})"


def _span(interval: Mapping[str, Any]) -> str:
    """Return "low to high": signed around zero, else of the amount that goes with "less"."""
    low, high = interval["low"], interval["high"]
    if low <= 0 <= high:
        return f"{signed(low)} to {signed(high)}"
    return " to ".join(plain(end) for end in sorted((abs(low), abs(high))))
