"""The top of the page: title, result in a sentence, and facts about the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenstream.errors import count
from evenstream.report import frame
from evenstream.report.comparison.content import Content
from evenstream.report.comparison.words import lead
from evenstream.report.formats import common, ranges
from evenstream.report.html import escape, lines
from evenstream.run.metrics_file import Metrics


def title(content: Content) -> str:
    """Return the title of the page."""
    streams = {run.metrics.stream for run in content.runs if run.metrics.stream}
    stream = ", ".join(sorted(streams)) or content.directory.resolve().name
    names = list(content.summary) or list(dict.fromkeys(run.method for run in content.runs))
    return f"{names[0] if len(names) == 1 else f'{len(names)} methods'} on {stream}"


def header(content: Content, title: str) -> str:
    """Return the top of the page."""
    facts = [
        f"<div{' class=span' if name == 'Software' else ''}>"
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in _facts(content).items()
        if value
    ]
    further = f'<dl class="facts">\n{lines(facts)}\n</dl>\n'
    return frame.header(title, lead(content.summary), further)


def _facts(content: Content) -> dict[str, str]:
    """Return what the runs have in common; empty where it is not known."""
    runs = content.finished or [run for run in content.runs if run.metrics.entries]
    metrics = [run.metrics for run in runs]
    envs = [run.env for run in runs or content.runs]
    return {
        "Stream": common(m.stream for m in metrics),
        "Tasks": _tasks(metrics),
        "Seeds": ranges(sorted({run.seed for run in runs if isinstance(run.seed, int)})),
        "Data per run": common(_amount(m) for m in metrics),
        "Computed on": common(_device(m) for m in metrics),
        "Processor": common(env.get("cpu") for env in envs),
        "Software": _software(envs),
        "Commit": common(str(env["commit"])[:12] for env in envs if env.get("commit")),
    }


def _tasks(metrics: Sequence[Metrics]) -> str:
    """Return the numbers of tasks and classes."""
    tasks = metrics[0].tasks if metrics else []
    names = {name for task in tasks for name in task}
    return f"{count(len(tasks), 'task')}, {count(len(names), 'class')}" if tasks else ""


def _amount(metrics: Metrics) -> str:
    """Return how much data a run saw."""
    samples, steps, epochs = map(metrics.whole, ("samples", "steps", "epochs"))
    if samples is None or steps is None:
        return ""
    offline = f", {epochs} epochs a task" if epochs and epochs > 1 else ""
    return f"{samples:,} samples in {steps:,} steps{offline}"


def _device(metrics: Metrics) -> str:
    """Return what a run was computed on."""
    threads = metrics.whole("threads")
    words = "" if threads is None else count(threads, "thread")
    return ", ".join(filter(None, (metrics.text("device"), words, metrics.text("dtype"))))


def _software(envs: Sequence[Mapping[str, Any]]) -> str:
    """Return the versions that the runs were made with."""
    labels = {"evenstream": "evenstream", "python": "Python", "torch": "torch"}
    versions = {key: common(env.get(key) for env in envs) for key in labels}
    return ", ".join(f"{labels[key]} {value}" for key, value in versions.items() if value)
