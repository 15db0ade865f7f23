"""Each option as a card on a page, and an agent at work as a list of pictures."""

import base64
import io
from collections.abc import Sequence

from skillstream.reporting import page
from skillstream.reporting.figures import colour
from skillstream.reporting.frames import Frames
from skillstream.reporting.skills import Skill


def skill_cards(skills: Sequence[Skill]) -> str:
    """A card for each option."""
    cards = "".join(_card(option, skill) for option, skill in enumerate(skills))
    return f'<div class="cards">{cards}</div>'


def frame_list(frames: Frames) -> str:
    """Frames one after another, each framed in the colour of its option."""
    items = []
    for image, step, option in zip(frames.images, frames.steps, frames.options, strict=True):
        data = base64.b64encode(_png(image)).decode()
        items.append(
            f'<li style="--tint: {colour(option)}">'
            f'<img alt="The world at step {step}, option {option} running" '
            f'src="data:image/png;base64,{data}"><span>step {step}, option {option}</span></li>'
        )
    words = page.paragraph("The learnt policy at work, from the beginning of an episode.", "note")
    return f'<ul class="frames">{"".join(items)}</ul>{words}'


def _card(option: int, skill: Skill) -> str:
    entries = [
        (
            "Runs",
            f"{skill.share:.1%} of the steps, {skill.runs:,} times, {skill.duration:.1f} steps on average",
        )
    ]
    entries += [(name.capitalize(), f"{mean:.3g} ± {spread:.2g}") for name, mean, spread in skill.averages]
    body = "".join(f"<dt>{page.text(name)}</dt><dd>{page.text(words)}</dd>" for name, words in entries)
    if skill.actions:
        body += f"<dt>Actions</dt><dd>{_bars(skill.actions)}</dd>"
    places = "; ".join(f"{place}: {share}" for place, share in skill.places)
    stops = f"{skill.stops:,} times. Mostly at {places}" if skill.stops else "never within an episode"
    body += f"<dt>Stops</dt><dd>{page.text(stops)}</dd>"
    head = f"<h3>Option {option}</h3>"
    return f'<article class="card" style="--tint: {colour(option)}">{head}<dl>{body}</dl></article>'


def _bars(shares: Sequence[tuple[str, float]]) -> str:
    rows = "".join(
        f'<span>{page.text(name)}</span><i style="width: {share:.1%}"></i><b>{share:.0%}</b>'
        for name, share in shares
    )
    return f'<div class="bars">{rows}</div>'


def _png(image) -> bytes:
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, image, format="png", metadata={"Software": ""})
    return buffer.getvalue()
