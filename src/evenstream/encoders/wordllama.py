"""Turns texts into vectors with the static embeddings in the PyPI package wordllama.

Its own `load` looks for them in a folder that the wheel lacks, and then tries to download them, so
its two files are read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from evenstream.encoders.package import package_folder
from evenstream.errors import InputError

WEIGHTS, TOKENIZER = "weights/l2_supercat_256.safetensors", "l2_supercat_tokenizer_config.json"


class WordLlama(nn.Module):
    """Turns each text of a list into 256 numbers: the mean of its tokens' vectors.

    A text without any token gets zeros.
    """

    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        folder = package_folder("wordllama", "text")
        (table,) = load_file(folder / WEIGHTS).values()
        self.register_buffer("table", table.float())
        self._tokenizer = _tokenizer(folder / "tokenizers" / TOKENIZER)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """A row for each text."""
        if not isinstance(texts, (list, tuple)):
            raise InputError(
                "wordllama takes a list of texts; text encoders only work from Python so far: "
                'Learner(model="wordllama").learn(texts, labels), as in the tutorial on texts'
            )
        coded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        tokens = [text.ids for text in coded]
        device = self.table.device
        ids = torch.tensor(list(chain.from_iterable(tokens)), dtype=torch.long, device=device)
        starts = list(accumulate(map(len, tokens), initial=0))[:-1]
        return F.embedding_bag(ids, self.table, torch.tensor(starts, device=device), mode="mean")


def _tokenizer(file: Any) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InputError(
            "the package tokenizers is not installed; run pip install 'evenstream[text]'"
        ) from None
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
