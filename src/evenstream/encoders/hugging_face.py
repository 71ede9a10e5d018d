"""Turns texts into vectors with any tokenizer and encoder of Hugging Face's transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from evenstream.errors import InputError


class HuggingFaceText(nn.Module):
    """Turns each text of a list into the mean of the last layer's vectors, without padding.

    Args:
        tokenizer: as returned by `AutoTokenizer.from_pretrained(...)`.
        model: as returned by `AutoModel.from_pretrained(...)`.
        longest: maximum number of tokens per text; the rest is cut off.
    """

    longest: Tensor

    def __init__(
        self, tokenizer: Callable[..., Mapping[str, Tensor]], model: nn.Module, longest: int = 256
    ) -> None:
        super().__init__()
        self.tokenizer, self.model = tokenizer, model
        self.register_buffer("longest", torch.tensor(longest))  # fingerprints include it

    def forward(self, texts: Sequence[str]) -> Tensor:
        """A row for each text."""
        if not isinstance(texts, (list, tuple)):
            raise InputError("an encoder of texts takes a list of them")
        tokens = self.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=int(self.longest),
            return_tensors="pt",
        )
        device = next(self.model.parameters()).device
        tokens = {name: values.to(device) for name, values in tokens.items()}
        vectors: Tensor = self.model(**tokens).last_hidden_state
        there = tokens["attention_mask"].unsqueeze(2).to(vectors.dtype)
        return (vectors * there).sum(1) / torch.clamp(there.sum(1), min=1)
