"""The command line. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import tyro

from evenstream import __version__
from evenstream.cli import data_commands
from evenstream.cli.catalogue_commands import methods, streams
from evenstream.cli.live_commands import learn, predict
from evenstream.cli.pretrain_commands import pretrain
from evenstream.cli.run_commands import compare, report, resume, run
from evenstream.errors import EvenstreamError
from evenstream.run.progress import format_warning

DESCRIPTION = f"""evenstream {__version__}: online continual learning with Logit Adjusted Softmax.

Start here:  evenstream compare er er-las --stream c-digits
"""

Commands = dict[str, Callable[..., Any]]


def data() -> int:
    """Data sets: `data list`, `data get NAME`, `data verify NAME`, `data import NAME DIR`.

    Example: evenstream data get mnist
    """
    return _dispatch("evenstream data", data_commands.COMMANDS, ["--help"])


COMMANDS: Commands = {
    "run": run,
    "compare": compare,
    "resume": resume,
    "report": report,
    "learn": learn,
    "predict": predict,
    "pretrain": pretrain,
    "methods": methods,
    "streams": streams,
    "data": data,
}


def _dispatch(program: str, commands: Commands, arguments: list[str]) -> int:
    description = DESCRIPTION if commands is COMMANDS else data.__doc__
    result: int = tyro.extras.subcommand_cli_from_dict(
        commands,
        prog=program,
        description=description,
        args=arguments,
        config=(tyro.conf.OmitSubcommandPrefixes,),
    )
    return result


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 done, 1 something failed, 2 bad input."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--version"], ["-V"]):
        print(f"evenstream {__version__}")
        return 0
    before = warnings.formatwarning
    warnings.formatwarning = format_warning
    try:
        if words[:1] == ["data"]:
            return _dispatch("evenstream data", data_commands.COMMANDS, words[1:] or ["--help"])
        return _dispatch("evenstream", COMMANDS, words or ["--help"])
    except SystemExit as stop:  # from the parser, which has printed its say
        return stop.code if isinstance(stop.code, int) else 2
    except EvenstreamError as error:
        from evenstream.run.interruption import Interrupted

        stopped = isinstance(error, Interrupted)
        print(f"{'' if stopped else 'error: '}{error}", file=sys.stderr)
        return 130 if stopped else 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    finally:
        warnings.formatwarning = before


if __name__ == "__main__":
    sys.exit(main())
