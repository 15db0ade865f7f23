"""A page that needs nothing but itself: its look, and the pieces it is put together from.

Whatever comes from data is escaped here, in `text`; the other functions take finished HTML.
"""

import html
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from skillstream.reporting.figures import to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE, NARROW = 8.6, 4.1  # inches of figures, on a desk and on a phone

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
$body
</main>
</body>
</html>
""")


def page(title: str, parts: Sequence[str]) -> str:
    """The whole document; `title` is plain text."""
    return _PAGE.substitute(title=text(title), style=_style(), body="\n".join(part for part in parts if part))


def text(value: Any) -> str:
    """Anything as text that means only itself."""
    return html.escape(str(value))


def section(heading: str, *parts: str) -> str:
    """A heading and what belongs under it."""
    return (
        f"<section>\n<h2>{text(heading)}</h2>\n" + "\n".join(part for part in parts if part) + "\n</section>"
    )


def paragraph(words: str, kind: str = "") -> str:
    """Plain text as a paragraph."""
    return f"<p{_class(kind)}>{text(words)}</p>"


def tiles(entries: Sequence[tuple[str, str, str]]) -> str:
    """Numbers to be seen first: what each is, the number, and what it is to be compared with."""
    cells = (
        f'<div class="tile"><dt>{text(name)}</dt><dd>{text(number)}<small>{text(beside)}</small></dd></div>'
        for name, number, beside in entries
    )
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], caption: str) -> str:
    """A table whose first column names the rows, with numbers in the others."""
    top = "".join(
        f'<th scope="col"{_class("number" if i else "")}>{text(h)}</th>' for i, h in enumerate(head)
    )
    body = "".join(
        f'<tr><th scope="row">{text(row[0])}</th>'
        + "".join(f'<td class="number">{text(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(caption)}">'
        f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def facts(rows: Sequence[tuple[str, Any]]) -> str:
    """Names and what they are."""
    body = "".join(
        f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>' for name, value in rows
    )
    return f'<table class="facts"><tbody>{body}</tbody></table>'


def code(words: str, language: str) -> str:
    """Lines to copy."""
    return f'<pre tabindex="0"><code class="{text(language)}">{text(words)}</code></pre>'


def figure(name: str, alternative: str, draw: "Callable[[float], Figure]", caption: str = "") -> str:
    """A figure drawn for a wide page and again for a narrow one; the page shows one of them.

    `draw` takes a width in inches; `alternative` says in words what is to be seen.
    """
    drawn = "".join(
        f'<div class="{kind}">{to_svg(f"{name}-{kind}", text(alternative), partial(draw, width))}</div>'
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    )
    return f"<figure>{drawn}{_caption(caption)}</figure>"


def small_figure(name: str, alternative: str, draw: "Callable[[float], Figure]", caption: str = "") -> str:
    """A figure that takes half of a wide page, and all of a narrow one."""
    return f"<figure>{to_svg(name, text(alternative), partial(draw, NARROW))}{_caption(caption)}</figure>"


def heading(words: str) -> str:
    """A heading within a section."""
    return f"<h3>{text(words)}</h3>"


def folded(heading: str, content: str) -> str:
    """A piece that is shown on demand, and on paper."""
    return f"<details><summary>{text(heading)}</summary>{content}</details>"


def beside(left: str, right: str) -> str:
    """Two pieces side by side, or one below the other where there is no room."""
    return f'<div class="beside"><div>{left}</div><div>{right}</div></div>'


def _caption(words: str) -> str:
    return f"<figcaption>{text(words)}</figcaption>" if words else ""


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _style() -> str:
    return (files("skillstream.reporting") / "page.css").read_text()
