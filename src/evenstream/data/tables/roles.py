"""Determines which columns of a table are inputs and which is the label."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from evenstream.errors import DataError, DataWarning, InputError, some_of
from evenstream.tabular import TableEncoder, Wishes, infer_columns
from evenstream.tabular.columns import Category, Text
from evenstream.tabular.encoder import AS_ASKED
from evenstream.tabular.inference import Cells

LABEL_NAMES = ("label", "class", "target", "y")


@dataclass(frozen=True)
class Columns:
    """What a learner knows about a table: its features, in order, and the label."""

    features: tuple[str, ...]
    label: str | None
    ignored: tuple[str, ...] = ()
    encoder: TableEncoder | None = None
    """How the features are read; None if they are numbers in every row, or texts."""
    texts: bool = False
    """Whether the only feature is text, which is passed on as it is."""
    ids: str | None = None
    """The ignored column that holds the id of each row, if they have ids."""

    @classmethod
    def choose(
        cls,
        source: str,
        names: Sequence[str],
        label: str | None = None,
        ignore: Sequence[str] = (),
        *,
        label_needed: bool = True,
    ) -> Columns:
        """All columns are features, except the label and those to ignore.

        By default, the label is the column called label, class, target or y, if there is exactly
        one.
        """
        listed = ", ".join(names)
        if label is None:
            likely = [name for name in names if name.lower() in LABEL_NAMES]
            if len(likely) > 1 or (label_needed and not likely):
                found = f"could be {' or '.join(likely)}" if likely else "is not clear"
                raise DataError(
                    f"{source}: which column is the label {found}; name it with label "
                    f"(--label NAME). The columns are: {listed}"
                )
            label = likely[0] if likely else None
        for name in (*ignore, *([] if label is None else [label])):
            if name not in names:
                raise DataError(f"{source} has no column {name!r}; the columns are: {listed}")
        if label in ignore:
            raise InputError(f"the column {label!r} cannot be the label and be ignored")
        features = tuple(name for name in names if name != label and name not in ignore)
        if not features:
            raise DataError(f"{source} has no column besides the label; the columns are: {listed}")
        return cls(features, label, tuple(ignore))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Columns:
        """The inverse of `dataclasses.asdict`, even after a round trip through JSON."""
        texts = bool(state.get("texts", False))
        features, ignored = tuple(state["features"]), tuple(state["ignored"])
        return cls(features, state["label"], ignored, texts=texts, ids=state.get("ids"))

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint; the encoder is saved with the learner."""
        features, ignored = list(self.features), list(self.ignored)
        texts = {"texts": True} if self.texts else {}
        ids = {} if self.ids is None else {"ids": self.ids}
        return {"features": features, "label": self.label, "ignored": ignored, **texts, **ids}

    @cached_property
    def how(self) -> TableEncoder:
        """How the features are read."""
        if self.texts:
            return TableEncoder((Text(self.features[0]),))
        return self.encoder or TableEncoder.of_numbers(self.features)

    def with_texts(
        self, source: str, sample: Mapping[str, Cells], named: Sequence[str] = ()
    ) -> Columns:
        """The same with a single feature, which holds texts; the others are left out."""
        likely = list(named or (self.features if len(self.features) == 1 else ()))
        likely = likely or [name for name in self.features if name.lower() == "text"]
        if not likely and any(len(cells) for cells in sample.values()):
            kinds, _ = infer_columns(source, {name: sample[name] for name in self.features})
            for kind in (Text, Category):
                likely = likely or [column.name for column in kinds if isinstance(column, kind)]
        if len(likely) != 1:
            found = f"could be {' or '.join(likely)}" if likely else "is not clear"
            raise DataError(
                f"{source}: which column holds the texts {found}; name one with --text NAME, or "
                f"leave the others out with --ignore. The columns are: {', '.join(self.features)}"
            )
        if likely[0] not in self.features:
            raise DataError(f"{source} has no column {likely[0]!r} among its inputs")
        others = [name for name in self.features if name not in likely]
        return replace(
            self, features=tuple(likely), ignored=(*self.ignored, *others), encoder=None, texts=True
        )

    def told_by(
        self, source: str, sample: Mapping[str, Cells], wishes: Wishes, *, comma: bool = False
    ) -> Columns:
        """The same columns, with the kind of each detected from the first rows."""
        cells = {name: sample[name] for name in self.features}
        columns, left_out = infer_columns(source, cells, wishes, comma=comma)
        asked = dict.fromkeys(self.ignored, AS_ASKED)
        encoder = TableEncoder(columns, {**left_out, **asked})
        doubt = None if wishes.names else encoder.doubt(len(next(iter(cells.values()))))
        if doubt is not None:
            warnings.warn(f"{source}: {doubt}", DataWarning, stacklevel=4)
        return replace(
            self,
            features=encoder.names,
            ignored=(*self.ignored, *left_out),
            encoder=encoder,
        )

    def places(self, source: str, names: Sequence[str]) -> tuple[list[int], int | None]:
        """The positions of the features in a table, by name, and of the label, if it has one."""
        place = {name: index for index, name in enumerate(names)}
        missing = [name for name in self.features if name not in place]
        unknown = [n for n in names if n not in (*self.features, self.label, *self.ignored)]
        for trouble, found in (
            ("lacks the column", missing),
            ("has the unknown column", unknown),
        ):
            if found:
                raise DataError(
                    f"{source} {trouble}{'s' * (len(found) > 1)} {some_of(found)}; the learner was "
                    "made with "
                    f"{some_of(self.features)} and the label {self.label}"
                )
        label = None if self.label is None else place.get(self.label)
        return [place[name] for name in self.features], label
