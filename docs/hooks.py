"""MkDocs hooks: show the project's own documents on the site, and unlink files that the site does not have.

Pages link to other files of the repository by relative paths, which work on GitHub. On the site, a link to
CONTRIBUTING.md, CHANGELOG.md or SECURITY.md becomes a link to that page, and a link to any other file outside docs/
becomes its text and the file's path.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

#: Documents at the root of the repository, and the pages that show them.
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")


def site_links(markdown: str, source: str, page: str) -> str:
    """Rewrite the links of `source`, a path in the repository, for `page`, a path in docs/."""

    def rewrite(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in PAGES:
            there = PAGES[path]
        elif path.startswith("docs/"):
            there = path.removeprefix("docs/")
        elif text.strip("`") == path:
            return f"`{path}`"
        else:
            return f"{text} (`{path}` in the repository)"
        return f"[{text}]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{anchor})"

    return LINK.sub(rewrite, markdown)


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each document at the root of the repository."""
    from mkdocs.structure.files import File

    root = Path(config.config_file_path).parent
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=site_links((root / source).read_text(), source, page)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page of docs/ that leave the folder."""
    path = page.file.src_uri
    return markdown if path in PAGES.values() else site_links(markdown, f"docs/{path}", path)
