"""For the site: files of the repository that are no pages are named rather than linked."""

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)#]+)(?:#[^)]*)?\)")
"""A link out of docs/ and the file it leads to; between pages links begin with ../ too, and end in .md."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Say where a file is in the repository, in place of a link that the site cannot have."""
    depth = page.file.src_uri.count("/")

    def named(found: re.Match[str]) -> str:
        if found[0].partition("](")[2].count("../") <= depth:
            return found[0]
        return f"`{found[2]}`" if found[1].strip("`") == found[2] else f"{found[1]} (`{found[2]}`)"

    return OUTSIDE.sub(named, markdown)
