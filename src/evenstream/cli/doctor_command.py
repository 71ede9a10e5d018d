"""`evenstream doctor`: what the machine offers, for bug reports."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

from evenstream.plugins import broken_ones_left_out
from evenstream.printable import say
from evenstream.version import __version__

Facts = Iterable[tuple[str, object]]

INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16")
"""Processor flags that make a difference to PyTorch, as Linux spells them."""
VARIABLES = re.compile(r"EVENSTREAM_\w+|OMP_NUM_THREADS|MKL_NUM_THREADS|CUDA_VISIBLE_DEVICES")
_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*(?:;.*extra == ['\"]([\w-]+)['\"])?")


def doctor() -> int:
    """Print versions, processor, extras and data sets of this machine, for a bug report.

    Names whatever is missing or broken, plugins included; exits with 1 if PyTorch cannot be used.

    Example: evenstream doctor
    """
    _show("evenstream", _package)
    _show("machine", _machine)
    _show("PyTorch", _torch)
    _show("libraries", _libraries)
    _show("extras", _extras)
    with broken_ones_left_out() as plugins:
        _show("plugins", lambda: plugins.items() or [("named", "none")])
        _show("data sets", _data)
    _show("environment", _environment)
    return 0 if _works("torch") else 1


def _show(title: str, facts: Callable[[], Facts]) -> None:
    say(title)
    for name, value in _attempt(facts):
        say(f"  {name:<18} {value}")


def _attempt(facts: Callable[[], Facts]) -> list[tuple[str, object]]:
    """Collect the facts; a failure counts as a fact."""
    found: list[tuple[str, object]] = []
    try:
        found.extend(facts())
    except Exception as error:  # whatever is broken, still report the rest
        found.append(("cannot be said", f"{type(error).__name__}: {error}"))
    return found


def _works(module: str) -> bool:
    try:
        import_module(module)
    except Exception:
        return False
    return True


def _package() -> Facts:
    from evenstream.run.environment import source_commit

    yield "version", __version__
    yield "commit", source_commit() or "installed, no repository"
    yield "installed in", Path(__file__).parents[1]
    yield "Python", f"{platform.python_version()}, {sys.executable}"


def _machine() -> Facts:
    from evenstream.run.environment import cpu_name

    yield "system", platform.platform()
    yield "processor", cpu_name() or "unknown"
    yield "cores", f"{os.cpu_count()}, of which this process may use {_usable_cores()}"
    yield "memory", _memory()
    yield "instructions", _instructions()


def _usable_cores() -> int | None:
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count()


def _memory() -> str:
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return "unknown"
    return f"{pages * size / 2**30:.1f} GiB"


def _instructions() -> str:
    """Processor flags according to Linux; elsewhere PyTorch's capability, below, must do."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown on this system"
    known = set(re.findall(r"\w+", text))
    return ", ".join(f"{name} {'yes' if name in known else 'no'}" for name in INSTRUCTIONS)


def _torch() -> Facts:
    import torch

    from evenstream.core.devices import resolve_dtype

    yield "version", torch.__version__
    yield "capability", torch.backends.cpu.get_cpu_capability()
    yield "threads", f"{torch.get_num_threads()} (commands use 1 unless --threads says otherwise)"
    yield "dtype auto", f"{resolve_dtype('auto', torch.device('cpu'))} on the CPU"
    if torch.version.cuda is None:
        yield "CUDA", "this build of PyTorch has none"
    elif not torch.cuda.is_available():
        yield "CUDA", f"{torch.version.cuda}, but no device can be used"
    else:
        for index in range(torch.cuda.device_count()):
            yield f"CUDA device {index}", torch.cuda.get_device_name(index)


def _libraries() -> Facts:
    for name, extra in _requirements():
        if not extra:
            yield name, _version(name) or "missing: pip install evenstream again"


def _extras() -> Facts:
    known: dict[str, list[str]] = {}
    for name, extra in _requirements():
        if extra and extra not in ("all", "docs", "dev"):
            known.setdefault(extra, []).append(name)
    for extra, names in sorted(known.items()):
        found = {name: _version(name) for name in names}
        if all(found.values()):
            yield extra, ", ".join(f"{name} {number}" for name, number in found.items())
        else:
            yield extra, f"not installed: pip install 'evenstream[{extra}]'"


def _requirements() -> list[tuple[str, str]]:
    """The packages that evenstream requires, each with the extra it belongs to, if any."""
    try:
        lines = requires("evenstream") or []
    except PackageNotFoundError:
        return []
    found = [match for line in lines if (match := _REQUIREMENT.match(line))]
    return [(match[1], match[2] or "") for match in found]


def _version(name: str) -> str:
    """The version of an installed package; empty if it is not installed."""
    try:
        metadata(name)
        return version(name)
    except PackageNotFoundError:
        return ""


def _data() -> Facts:
    from evenstream.data import data_root, list_datasets

    yield "folder", f"{data_root()} (EVENSTREAM_DATA moves it)"
    missing = []
    for row in list_datasets():
        if row.present:
            yield row.name, row.where
        else:
            missing.append(row.name)
    yield "not here", ", ".join(missing) or "none"


def _environment() -> Facts:
    named = sorted(name for name in os.environ if VARIABLES.fullmatch(name))
    for name in named:
        yield name, os.environ[name]
    if not named:
        yield "variables", "none that matter"
