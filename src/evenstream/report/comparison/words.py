"""Results in sentences that say no more than the seeds allow."""

from __future__ import annotations

from evenstream.errors import count
from evenstream.report.comparison.summary import Difference, MethodSummary, Summary
from evenstream.report.formats import plain, signed
from evenstream.report.html import code, escape, spread
from evenstream.statistics import Interval


def lead(summary: Summary) -> str:
    """Return the sentence at the top of the page."""
    if not summary:
        return "No run has finished yet, so there are no results to show."
    if len(summary) == 1:
        ((name, entry),) = summary.items()
        return _alone(name, entry)
    return _ranking(summary)


def _alone(name: str, entry: MethodSummary) -> str:
    """Sum up a single method."""
    text = (
        f"{code(name)} ended with an average accuracy of {_accuracy(entry)} over all tasks"
        f"{_over(entry)}"
    )
    forgetting = entry.mean("F_T")
    if forgetting is None:
        return f"{text}."
    loss = forgetting.mean
    if loss < 0:
        return f"{text} and forgot nothing: earlier tasks improved by {-loss:.1f} points."
    return f"{text} and forgot {loss:.1f} points of its best accuracy on earlier tasks."


def _ranking(summary: Summary) -> str:
    """Name the method with the highest accuracy and how sure its lead is."""
    best, second = sorted(summary, key=lambda name: -summary[name].accuracy)[:2]
    text = (
        f"{code(best)} ended with the highest average accuracy: {_accuracy(summary[best])}"
        f"{_over(summary[best])}."
    )
    ahead = _ahead(summary, best, second)
    if ahead is None:
        return f"{text} Next is {code(second)}, run on other seeds."
    if ahead.low is None:
        return f"{text} With one shared seed, its lead over {code(second)} could be luck."
    if ahead.low > 0:
        return (
            f"{text} It leads the next, {code(second)}, by {ahead.mean:.1f} points "
            f"(95&nbsp;% interval {ahead.low:.1f} to {ahead.high:.1f})."
        )
    return f"{text} Its lead over the next, {code(second)}, is too small to be sure of."


def _ahead(summary: Summary, a: str, b: str) -> Interval | None:
    """Return a minus b in A_T, whichever came first in the summary."""
    if b in summary[a].minus:
        return summary[a].minus[b]["A_T"]
    found = summary[b].minus[a]["A_T"] if a in summary[b].minus else None
    return None if found is None else -found


def _accuracy(entry: MethodSummary) -> str:
    """Return a method's final accuracy in bold."""
    return f"<strong><span class=nowrap>{escape(spread(entry.mean('A_T')))} %</span></strong>"


def _over(entry: MethodSummary) -> str:
    """Say how many seeds there are, if several."""
    n = len(entry.runs)
    return f" over {n} seeds" if n > 1 else ""


def difference_sentence(method: str, baseline: str, difference: Difference) -> str:
    """Say what the paired difference between two methods tells."""
    method, baseline = code(method), code(baseline)
    accuracy, loss = difference["A_T"], difference["F_T"]
    if accuracy is None:
        return f"{method} and {baseline} have no final accuracy on a shared seed."
    text = _more_accurate(method, baseline, accuracy)
    return f"{text}." if loss is None else f"{text}; {_forgets(method, loss)}."


def _more_accurate(method: str, baseline: str, found: Interval) -> str:
    """Compare final accuracies."""
    points = f"{abs(found.mean):.1f} points"
    higher = found.mean >= 0
    if found.low is None:
        return (
            f"{method} ended {points} {'above' if higher else 'below'} {baseline} on the one seed "
            "they share, which cannot show how much of that is luck"
        )
    interval = f"(95&nbsp;% interval {_span(found)}, {count(found.n, 'seed')})"
    if not found.excludes_zero:
        return (
            f"<strong>No clear difference</strong> in accuracy between {method} and {baseline}: "
            f"{signed(found.mean)} points on average {interval}"
        )
    return (
        f"{method} is <strong>{'more' if higher else 'less'} accurate</strong> than "
        f"{baseline}, by {points} on average {interval}"
    )


def _forgets(method: str, found: Interval) -> str:
    """Compare forgetting."""
    amount = f"{abs(found.mean):.1f} points {'less' if found.mean < 0 else 'more'}"
    if found.low is None:
        return f"{method} forgot {amount}"
    if not found.excludes_zero:
        return f"no clear difference in forgetting: {signed(found.mean)} points ({_span(found)})"
    return f"{method} forgets {amount} ({_span(found)})"


def _span(interval: Interval) -> str:
    """Return "low to high": signed around zero, else of the amount that goes with "less"."""
    ends = [end for end in (interval.low, interval.high) if end is not None]
    if not interval.excludes_zero:
        return " to ".join(map(signed, ends))
    return " to ".join(plain(end) for end in sorted(map(abs, ends)))
