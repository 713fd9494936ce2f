"""Checks the links in all Markdown files of the repository: that the file is there, and the heading too;
and that files of the repository which the prose names are there.

Run by `make links`. Standard library only, so it needs neither mdBook nor a network; addresses of other
sites are not fetched. Links to this repository's own files by their address on GitHub are checked as files.
"""

from pathlib import Path
import re
import subprocess
import sys
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "docs" / "src"
OWN = re.compile(r"https://github\.com/OWNER/mcp-code-bridge/(?:blob|tree)/main/")
LINK = re.compile(r"!?\[(?:[^\]\\]|\\.)*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\[[^\]]+\]:\s+<?(\S+?)>?\s*$", re.MULTILINE)
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,}).*?^\1?\2`*\s*$", re.MULTILINE | re.DOTALL)
# `bridge/wire/src/link.rs`, without patterns and placeholders.
NAMED = re.compile(r"`((?:bridge|docs|guest-image|nix|tests|\.github|\.ci)/[\w./-]+)`")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)


def tracked() -> list[Path]:
    """Markdown files that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(path for name in names.split("\0") if name and (path := ROOT / name).exists())


def prose(path: Path) -> str:
    """The text without code blocks, which hold no links and no headings."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and mdBook make them."""
    found: set[str] = set()
    for heading in HEADING.findall(prose(path)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchor = base = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        number = 0
        while anchor in found:
            number += 1
            anchor = f"{base}-{number}"
        found.add(anchor)
    return found


def links(path: Path) -> list[str]:
    """Targets of all links, without those in inline code."""
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", prose(path), flags=re.DOTALL)
    return LINK.findall(text) + DEFINITION.findall(text)


def problem(page: Path, link: str) -> str | None:
    """What is wrong with a link, if anything."""
    own = OWN.match(link)
    if own is None and re.match(r"[a-z][a-z0-9+.-]*:", link):
        return None
    place, _, anchor = (link[own.end() :] if own else link).partition("#")
    base = ROOT if own else page.parent
    target = (base / unquote(place)).resolve() if place else page
    if not target.exists():
        return "no such file"
    inside = page.is_relative_to(BOOK)
    if inside and own is None and not target.is_relative_to(BOOK):
        return "outside of the book: link to the file on GitHub instead"
    if anchor and target.suffix == ".md" and unquote(anchor) not in anchors(target):
        return "no such heading"
    return None


def main() -> int:
    """Prints every broken link, and every page of the book that its summary leaves out."""
    found = []
    pages = tracked()
    for page in pages:
        for link in links(page):
            if wrong := problem(page, link):
                found.append(f"{page.relative_to(ROOT)}: {link}: {wrong}")
        for name in NAMED.findall(prose(page)):
            # What tests and builds make is not in a fresh clone.
            if "/.cache" not in name and not (ROOT / name).exists():
                found.append(f"{page.relative_to(ROOT)}: {name}: no such file")
    summary = BOOK / "SUMMARY.md"
    listed = {(BOOK / link).resolve() for link in links(summary)}
    for page in pages:
        if page.is_relative_to(BOOK) and page != summary and page not in listed:
            found.append(f"{page.relative_to(ROOT)}: not in docs/src/SUMMARY.md")
    print(*found, sep="\n", end="\n" if found else "")
    print(f"links: {len(pages)} pages, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
