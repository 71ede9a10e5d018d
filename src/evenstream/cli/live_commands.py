"""`evenstream learn` and `evenstream predict`: use a saved learner from the shell."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import tyro

from evenstream.choosing import AUTO, choose, made_for
from evenstream.encoders import is_encoder
from evenstream.errors import EvenstreamError, InputError
from evenstream.files import AS_IT_IS, replacing, with_home
from evenstream.options import TrainingOptions
from evenstream.printable import Escaping, say, say_error
from evenstream.text import field_docs, metavar, option_types

if TYPE_CHECKING:
    from evenstream.learner.learner import Learner
    from evenstream.live.sources import Source

PREDICT_ROWS = 256
IMAGE_SIDE = 64
"""Default side length to which images are resized."""
FOR_TABLES, FOR_IMAGES = (
    {"network": chosen.network, **chosen.training()}
    for chosen in (choose((1,)), choose((3, IMAGE_SIDE, IMAGE_SIDE)))
)

Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
OldFolder = Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")]
From = Annotated[str, tyro.conf.arg(name="from", metavar="DATA")]
Data = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
Column = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="NAME", help_behavior_hint="(default: the one called label, class, target or y)"
    ),
]
IdColumn = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
Columns = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]", help_behavior_hint="")
]
Saved = Annotated[
    str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: where it was saved)")
]


def _new(metavar: str, default: Any) -> Any:
    """How the help shows the default of an option for a new learner."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


def _by_data(metavar: str, name: str) -> Any:
    return _new(metavar, f"{FOR_TABLES[name]} for tables, {FOR_IMAGES[name]} for images")


@dataclass(frozen=True)
class NewLearnerFlags:
    """options of a new learner; a saved one keeps its own"""

    method: Annotated[str | None, _new("METHOD", AUTO)] = None
    """NAME[:key=value,...] (see `evenstream methods`)."""
    network: Annotated[str | None, _by_data("NAME", "network")] = None
    """Feature extractor; wordllama, or a text encoder that a plugin registers, reads one column of
    texts."""

    def given(self) -> dict[str, Any]:
        """The options that were set."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def make(self, images: bool, device: str | None) -> Learner:
        """A new learner, for images or for tables."""
        from evenstream.learner.learner import Learner

        given = self.given()
        chosen = dict(FOR_IMAGES if images else FOR_TABLES)
        if is_encoder(given.get("network", "")):
            chosen = {}  # as in Python
        if "optimizer" in given:
            chosen = {n: v for n, v in chosen.items() if n not in ("lr", "weight_decay")}
        options = {**chosen, **made_for(given.get("method", AUTO), given), **given}
        return Learner(model=options.pop("network"), device=device or "cpu", **options)

    def check(self, learner: Learner) -> None:
        """Reject options that contradict the saved learner."""
        from evenstream.composition import compose

        for name, value in self.given().items():
            saved: Any = getattr(learner.options, name, learner.model_text)
            if name == "method":
                saved, value = learner.text, compose(value).text
            if name == "network" and learner.front is not None and "then=" not in value:
                saved = learner.front.frozen.followed_by(AUTO).text
            if value not in (saved, "auto"):
                flag = name.replace("_", "-")
                raise InputError(
                    f"the saved learner has --{flag} {saved}, not {value}; leave --{flag} out, or "
                    "start a new learner in another folder"
                )


def _flags() -> list[tuple[str, Any, Any]]:
    """A flag for each training option that applies to a live stream."""
    types, meanings = option_types(TrainingOptions), field_docs(TrainingOptions)
    found: list[tuple[str, Any, Any]] = []
    for field in fields(TrainingOptions):
        name, kind = field.name, types[field.name]
        if name in ("device", "scope"):  # one has its own flag; "all classes" are not known
            continue
        called = metavar(kind)
        shown = _by_data(called, name) if name in FOR_TABLES else _new(called, field.default)
        shown = replace(shown, help=" ".join(meanings[name].split()))
        found.append((name, Annotated[kind | None, shown], None))
    return found


if TYPE_CHECKING:
    NewLearner = NewLearnerFlags
else:
    NewLearner = make_dataclass("NewLearner", _flags(), bases=(NewLearnerFlags,), frozen=True)
    NewLearner.__doc__ = NewLearnerFlags.__doc__


def learn(
    directory: Folder,
    source: From,
    new: Annotated[NewLearner, tyro.conf.OmitArgPrefixes] = NewLearner(),  # noqa: B008
    start: OldFolder = None,
    label: Column = None,
    ids: IdColumn = None,
    ignore: Columns = (),
    categorical: Columns = (),
    text: Columns = (),
    date: Columns = (),
    size: Annotated[int | None, _new("INT", 64)] = None,
    corrupt: Literal["stop", "skip"] = "stop",
    again: tyro.conf.FlagCreatePairsOff[bool] = False,
    drift: tyro.conf.FlagCreatePairsOff[bool] = False,
    patience: float = 10.0,
    checkpoint_every: int = 500,
    device: Saved = None,
    threads: int = 1,
) -> int:
    """Learn from new data in one pass, with a saved learner or a new one.

    Example: evenstream learn plant --from monday.csv

    Shows the accuracy on rows before they are learned. Ctrl-C saves, and the same command resumes
    from there; it also learns rows that have since been added to a CSV file. Rows are read in the
    order of the file. Images in folders, which would come class by class, are shuffled by the seed.

    Args:
        directory: Folder of the learner: new, or written by `learn` or by Learner.save.
        source: A table (.csv, .tsv, .jsonl, .parquet), an .npz file, a folder with a folder of
            images for each class, - for CSV with a header or JSON lines from standard input, as in
            `tail -n +1 -f monday.csv | evenstream learn plant --from -`, or SCHEME://... with a
            scheme that a plugin provides.
        new: Options of a new learner.
        start: Start a new DIR from a copy of the learner in this folder, which may be a run's.
        label: Column that holds the label.
        ids: Column of a table that holds an id for each row (or for the person it is from), so that
            `evenstream correct` can find it; remembered for further tables.
        ignore: Columns to leave out.
        categorical: Columns to treat as categories, whatever they look like; for a new learner.
        text: Columns to treat as free text, whose words are counted; with a text encoder, the one
            column that it reads. For a new learner.
        date: Columns to treat as dates or times, each as NAME or NAME=FORMAT (%d.%m.%Y); for a
            new learner.
        size: Height and width that images are resized to; for a new learner.
        corrupt: What to do with rows and images that cannot be used: stop, or skip and count them.
        again: Learn data even if it has been learned before.
        drift: Warn when accuracy, loss or inputs change, from now on (needs evenstream[river]).
        patience: Seconds that rows from standard input wait for a full batch.
        checkpoint_every: Steps between saves.
        device: cpu, cuda, cuda:1, ...
        threads: Number of threads; with one, results are reproducible bit for bit.
    """
    from evenstream.checkpoint import has_checkpoint
    from evenstream.cli.screen import Screen
    from evenstream.core.drift import Adwin
    from evenstream.live.display import Display, summary
    from evenstream.live.following import check_following, follow
    from evenstream.live.learner_folder import check_folder, read_learner
    from evenstream.live.open_data import Known, Reading, open_source
    from evenstream.live.tally import Place
    from evenstream.run.machine import use_machine
    from evenstream.tabular import Wishes

    use_machine(threads)
    known, streams = Known(), dict[str, Place]()
    if has_checkpoint(directory) and start is not None:
        raise InputError(f"{directory} already holds a learner; leave --start out")
    saved = directory if has_checkpoint(directory) else start
    if saved is not None:
        learner, tally = read_learner(saved, device)
        new.check(learner)
        known = Known.of(learner, tally)
        streams = tally.streams if saved == directory else {}
    else:
        learner = new.make(False, device)
    if drift and learner.drift is None:
        learner.drift = Adwin()
    check_folder(directory)
    check_following(learner, checkpoint_every)
    wishes = Wishes(categorical, text, date)
    reading = Reading(
        label=label,
        ignore=ignore,
        ids=ids,
        wishes=wishes,
        texts=is_encoder(new.network or ""),
        size=size,
        bad=corrupt,
        patience=patience,
    )
    with contextlib.closing(open_source(source, known, reading)) as data:
        if saved is None:
            _tell_columns(data)
            if data.is_image:
                watch, learner = learner.drift, new.make(True, device)
                learner.drift = watch
        data.batch = learner.options.batch
        data.shuffle(learner.options.seed)
        name = data.name_in(streams, again=again)
        with Display(Screen()) as display, data.trouble():
            metrics = follow(
                learner,
                data.stream,
                directory,
                name=name,
                checkpoint_every=checkpoint_every,
                refused=corrupt,
                on_step=display,
            )
    say(summary(metrics, name, streams.get(name, Place()), directory))
    return 0


def _tell_columns(data: Source) -> None:
    """Print how the columns of a table were interpreted."""
    from evenstream.live.sources import TableSource

    if not isinstance(data, TableSource):
        return
    columns, encoder = data.columns, data.columns.encoder
    if columns.texts:
        left_out = f"; left out: {', '.join(columns.ignored)}" if columns.ignored else ""
        say(f"texts: the column {columns.features[0]}{left_out}")
    if encoder is not None and not encoder.obvious:
        say(encoder.summary())
        say("(--categorical, --text, --date or --ignore NAME reads a column differently)")


def predict(
    directory: Folder,
    source: Data,
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: the screen)")
    ] = None,
    top: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None,
    reject: Annotated[float | None, tyro.conf.arg(metavar="SHARE", help_behavior_hint="")] = None,
    spreadsheet_safe: tyro.conf.FlagCreatePairsOff[bool] = False,
    label: Column = None,
    ignore: Columns = (),
    corrupt: Literal["stop", "skip", "null"] = "stop",
    device: Saved = None,
    threads: int = 1,
) -> int:
    """Predict the labels of new data with a saved learner, as CSV.

    Example: evenstream predict plant tuesday.csv --out predictions.csv

    Writes the label and its probability for each row, and the probability of each class. If the
    data has labels, also prints the accuracy.

    Args:
        directory: Folder of the learner, or of a run.
        source: A table, an .npz file with x, an image, a folder of images, - for CSV or JSON lines
            from standard input, or SCHEME://... with a scheme that a plugin provides.
        out: File to write.
        top: Write this many of the most likely labels instead of all probabilities.
        reject: Leave the label empty where a row looks like no known class, and write how familiar
            each row looks; about this share (such as 0.05) of rows of known classes is also left
            empty.
        spreadsheet_safe: Put a ' before text that a spreadsheet would read as a formula.
        label: Column that holds the label; it is not used for prediction.
        ignore: Columns to leave out.
        corrupt: What to do with rows and images that cannot be used: stop, skip them, or write a
            line of empty cells for each (null), so that lines stay aligned with the data.
        device: cpu, cuda, cuda:1, ...
        threads: Number of threads.
    """
    from evenstream.live.learner_folder import read_learner
    from evenstream.live.open_data import Known, Reading, open_source
    from evenstream.live.predicting import check_predicting, write_predictions
    from evenstream.run.machine import use_machine

    if out is not None and _real(out).is_relative_to(_real(with_home(source))):
        raise InputError(f"--out {out} would overwrite the data itself; choose another file")
    use_machine(threads)
    learner, tally = read_learner(directory, device)
    check_predicting(learner, top, reject)
    reading = Reading(label=label, ignore=ignore, label_needed=False, bad=corrupt, patience=1.0)
    with contextlib.closing(open_source(source, Known.of(learner, tally), reading)) as data:
        data.batch = PREDICT_ROWS
        with _output(out) as file:
            score = write_predictions(
                learner,
                data,
                file,
                top,
                reject=reject,
                quote_formulas=spreadsheet_safe,
                tell_bad=corrupt == "null",
            )
        if data.skipped:
            done = "rows left out" if corrupt == "skip" else "rows left empty"
            say_error(f"{done} as unusable: {data.skipped:,}; the first: {data.refusal}")
    if reject is not None:
        say_error(f"like no known class: {score.rejected:,} of {score.rows:,} rows")
    if score.labelled:
        share = 100 * score.right / score.labelled
        say_error(f"accuracy {share:.1f} % of {score.labelled:,} labelled rows")
    return 0


def _real(path: Path) -> Path:
    """Where a path leads; unlike `resolve`, also works for circular links."""
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[TextIO | io.TextIOBase]:
    """A file that appears once it is complete, or the screen."""
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() == "utf-8":
            sys.stdout.reconfigure(errors=AS_IT_IS)
        yield Escaping(sys.stdout) if sys.stdout.isatty() else sys.stdout
        return
    try:
        with replacing(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", errors=AS_IT_IS)
            yield text
            text.detach()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise EvenstreamError(f"cannot write {path}: {error.strerror or error}") from error
