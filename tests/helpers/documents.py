"""Code blocks of the documentation, and what they say about being run."""

import functools
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import tyro

from evenstream.cli.main import COMMANDS, GROUPS
from evenstream.cli.numbers import NUMBERS

ROOT = Path(__file__).parents[2]
RUN = "a test runs this block"
READ = "a test reads this block"
NOT_RUN = re.compile(r"not run: \S")
PAGE_NOT_RUN = re.compile(r"<!-- blocks on this page are not run: \S.* -->")
FENCE = re.compile(
    r"(?:<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S
)
PLAIN = {"text"}
"""Languages of blocks that are no code."""


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    code: str
    mark: str

    @property
    def run(self):
        return self.mark == RUN

    @property
    def excused(self):
        return bool(NOT_RUN.match(self.mark)) or self.mark == READ

    def commands(self):
        """The lines that call evenstream, as words, without comments and pipes."""
        for line in self.code.splitlines() if self.language == "sh" else ():
            for command in line.split(" | "):
                words = shlex.split(command, comments=True)
                if words and Path(words[0]).name == "evenstream":
                    yield words[1:]


def pages():
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def blocks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    excuse = "not run: the page says why" if PAGE_NOT_RUN.search(text) else ""
    return [
        Block(page, found["language"], found["code"], found["mark"] or excuse)
        for found in FENCE.finditer(text)
        if found["language"] not in PLAIN
    ]


def understood(words):
    """Whether the command line would take these words; nothing is run."""
    commands = COMMANDS
    if commands.get(words[0]) in GROUPS:
        commands, words = GROUPS[commands[words[0]]], words[1:]
    called = {name: _without_effect(command) for name, command in commands.items()}
    try:
        with NUMBERS:
            tyro.extras.subcommand_cli_from_dict(
                called, args=words, config=(tyro.conf.OmitSubcommandPrefixes,)
            )
    except SystemExit:
        return False
    return True


def _without_effect(command):
    @functools.wraps(command)
    def nothing(*args, **options):
        return 0

    return nothing
