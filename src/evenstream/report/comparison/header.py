"""The top of the page: title, result in a sentence, and facts about the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenstream.report.comparison.content import Content
from evenstream.report.comparison.words import lead
from evenstream.report.formats import common, count, ranges
from evenstream.report.html import breakable, escape, lines


def title(content: Content) -> str:
    """Return the title of the page."""
    streams = {str(run.metrics["stream"]) for run in content.runs if "stream" in run.metrics}
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
    return f"""<header class="top"><div>
<p class="eyebrow">evenstream report</p>
<h1>{breakable(title)}</h1>
<p class="lead">{lead(content.summary)}</p>
<dl class="facts">
{lines(facts)}
</dl>
</div></header>"""


def _facts(content: Content) -> dict[str, str]:
    """Return what the runs have in common; empty where it is not known."""
    runs = content.finished or [run for run in content.runs if run.metrics]
    metrics = [run.metrics for run in runs]
    envs = [run.env for run in runs or content.runs]
    return {
        "Stream": common(m.get("stream") for m in metrics),
        "Tasks": _tasks(metrics),
        "Seeds": ranges(sorted({run.seed for run in runs if isinstance(run.seed, int)})),
        "Data per run": common(_amount(m) for m in metrics),
        "Computed on": common(_device(m) for m in metrics),
        "Processor": common(env.get("cpu") for env in envs),
        "Software": _software(envs),
        "Commit": common(str(env["commit"])[:12] for env in envs if env.get("commit")),
    }


def _tasks(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return the numbers of tasks and classes."""
    tasks = metrics[0].get("tasks") if metrics else None
    if not isinstance(tasks, list):
        return ""
    names = {str(c) for task in tasks if isinstance(task, list) for c in task}
    return f"{count(len(tasks), 'task')}, {count(len(names), 'class')}"


def _amount(metrics: Mapping[str, Any]) -> str:
    """Return how much data a run saw."""
    samples, steps = metrics.get("samples"), metrics.get("steps")
    if not isinstance(samples, int) or not isinstance(steps, int):
        return ""
    epochs = metrics.get("epochs", 1)
    offline = f", {epochs} epochs a task" if isinstance(epochs, int) and epochs > 1 else ""
    return f"{samples:,} samples in {steps:,} steps{offline}"


def _device(metrics: Mapping[str, Any]) -> str:
    """Return what a run was computed on."""
    threads = metrics.get("threads")
    parts = (
        metrics.get("device"),
        count(threads, "thread") if isinstance(threads, int) else None,
        metrics.get("dtype"),
    )
    return ", ".join(str(part) for part in parts if part is not None)


def _software(envs: Sequence[Mapping[str, Any]]) -> str:
    """Return the versions that the runs were made with."""
    labels = {"evenstream": "evenstream", "python": "Python", "torch": "torch"}
    versions = {key: common(env.get(key) for env in envs) for key in labels}
    return ", ".join(f"{labels[key]} {value}" for key, value in versions.items() if value)
