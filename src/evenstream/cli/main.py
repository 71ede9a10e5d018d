"""The command line. Heavy modules are imported only when needed."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr
from typing import Any

import tyro

from evenstream.cli import correct_commands, data_commands, paper_commands
from evenstream.cli.catalogue_commands import methods, streams
from evenstream.cli.doctor_command import doctor
from evenstream.cli.export_commands import export
from evenstream.cli.live_commands import learn, predict
from evenstream.cli.numbers import NUMBERS
from evenstream.cli.pretrain_commands import pretrain
from evenstream.cli.run_commands import compare, report, resume, run
from evenstream.cli.sweep_commands import sweep
from evenstream.errors import EvenstreamError, InputError, memory_trouble
from evenstream.printable import Escaping, printable, say_error
from evenstream.run.announcing import format_warning
from evenstream.version import __version__

DESCRIPTION = f"""evenstream {__version__}: online continual learning with Logit Adjusted Softmax.

Start here:  evenstream compare er er-las --stream c-digits
"""

LOG = "EVENSTREAM_LOG"
"""Environment variable for the log level."""
LEVELS = ("debug", "info", "warning")

Commands = dict[str, Callable[..., Any]]


def data() -> int:
    """Data sets: `data list`, `data get NAME`, `data verify NAME`, `data import NAME DIR`.

    Example: evenstream data get mnist
    """
    return _dispatch_group(data, ["--help"])


def paper() -> int:
    """The paper's tables and figures: `paper list`, `paper run NAME`, `paper report`.

    Example: evenstream paper run mnist --scale smoke
    """
    return _dispatch_group(paper, ["--help"])


def correct() -> int:
    """Correct a saved learner: `correct relabel|forget|rename|merge|remove-class DIR ...`.

    Example: evenstream correct rename plant "class 3" crack
    """
    return _dispatch_group(correct, ["--help"])


COMMANDS: Commands = {
    "run": run,
    "compare": compare,
    "resume": resume,
    "report": report,
    "sweep": sweep,
    "paper": paper,
    "learn": learn,
    "predict": predict,
    "correct": correct,
    "export": export,
    "pretrain": pretrain,
    "methods": methods,
    "streams": streams,
    "data": data,
    "doctor": doctor,
}
GROUPS: dict[Callable[..., Any], Commands] = {
    correct: correct_commands.COMMANDS,
    data: data_commands.COMMANDS,
    paper: paper_commands.COMMANDS,
}
"""Commands with subcommands."""


def _dispatch_group(group: Callable[..., Any], arguments: list[str]) -> int:
    program = f"evenstream {group.__name__}"
    return _dispatch(program, group.__doc__ or "", GROUPS[group], arguments)


def _dispatch(program: str, description: str, commands: Commands, arguments: list[str]) -> int:
    """Run the named command; the flags of the others are not even built."""
    odd = any(printable(word) != word for word in arguments)  # the parser prints them as they are
    with NUMBERS, redirect_stderr(Escaping(sys.stderr)) if odd else nullcontext():
        command = commands.get(arguments[0])
        result: int
        if command is not None:
            result = tyro.cli(command, prog=f"{program} {arguments[0]}", args=arguments[1:])
        else:
            result = tyro.extras.subcommand_cli_from_dict(
                commands,
                prog=program,
                description=description,
                args=arguments,
                config=(tyro.conf.OmitSubcommandPrefixes,),
            )
    return result


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 done, 1 something failed, 2 bad input."""
    _prepare_output()
    status = 0
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, as in `... | head`
        status = 128 + 13  # the shell's status for SIGPIPE
    except OSError as error:  # the output is a file, and the disk is full
        if not status:
            say_error(f"error: {error}")
        status = 2
    else:
        return status
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still buffered
    return status


def _prepare_output() -> None:
    """Make sure that there is somewhere to print to, in any encoding."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed, as with `>&-`
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _show_log(level: str) -> None:
    """Write the library's log to standard error if a level is set."""
    if not level:
        return
    if level not in LEVELS:
        raise InputError(f"{LOG} must be one of {', '.join(LEVELS)}, got {level!r}")
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(format=form)
    logging.getLogger("evenstream").setLevel(level.upper())


def _run(arguments: list[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--version"], ["-V"]):
        print(f"evenstream {__version__}")
        return 0
    before = warnings.formatwarning
    warnings.formatwarning = format_warning
    try:
        _show_log(os.environ.get(LOG, ""))
        if any("\0" in word for word in words):
            raise InputError("an argument contains a NUL character, which no name can have")
        command = COMMANDS.get(words[0]) if words else None
        if command in GROUPS:
            return _dispatch_group(command, words[1:] or ["--help"])
        return _dispatch("evenstream", DESCRIPTION, COMMANDS, words or ["--help"])
    except SystemExit as stop:  # from the parser, which has already printed its message
        return stop.code if isinstance(stop.code, int) else 2
    except EvenstreamError as error:
        from evenstream.interruption import Interrupted

        stopped = isinstance(error, Interrupted)
        say_error(f"{'' if stopped else 'error: '}{error}")
        return 130 if stopped else 2
    except BrokenPipeError:
        raise
    except OSError as error:
        say_error(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        say_error("stopped")
        return 130
    except Exception as error:
        if not (trouble := memory_trouble(error)):
            raise
        say_error(f"error: {trouble}")
        return 2
    finally:
        warnings.formatwarning = before


if __name__ == "__main__":
    sys.exit(main())
