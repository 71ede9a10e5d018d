"""The configuration of the generator, with the generated pages in its navigation."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from tools.website.page import Page


def with_generated_pages(
    config: str, methods: Sequence[Page], reference: Sequence[Page]
) -> dict[str, Any]:
    """The sections Methods and Reference get the pages that were made from the code."""
    project: dict[str, Any] = tomllib.loads(config)
    sections: dict[str, list[Any]] = {
        title: pages
        for entry in project["project"]["nav"]
        for title, pages in entry.items()
        if isinstance(pages, list)
    }
    sections["Methods"] += [{page.title: page.path} for page in methods]
    sections["Reference"] += [{page.title: page.path} for page in reference]
    return project
