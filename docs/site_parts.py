"""Sphinx extension for links that open a state of Fieldlab, galleries of states, and the moving pictures.

A link to `state:LAB?NAME=VALUE&…` opens the lab with these values in a Fieldlab that runs on the reader's computer; the
entry `run=1` starts it. A link to `story:NAME` opens a story. Both are checked while the site is built: a value out of
its bounds or an unknown story is an error. `{gallery} presets` and `{gallery} places` list the states that the page
offers, and `{moving} LAB` shows a moving picture of docs/images/moving.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from urllib.parse import unquote

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from app.labs.mandelbrot.bookmarks import file_of, places
from compute.export.link import NAME, RUN, packed
from compute.export.parameter_texts import values_of
from compute.export.scene import Scene
from compute.labs import lab_class
from compute.labs.equations.presets import presets
from compute.stories import stories

SERVER = "http://localhost:5006/app"  # of `make serve` and `fieldlab serve`
STATE = re.compile(r"(?<=\]\()state:(\w+)(?:\?([^)\s]*))?(?=\))")
STORY = re.compile(r"(?<=\]\()story:([\w-]+)(?=\))")
ALT = {
    "diffusion": "Hot and cold spots on a plate spread and fade",
    "mandelbrot": "A zoom into the Mandelbrot set, from the whole set to a small copy of it",
    "l_curve": "The L-curve of a regularised problem grows, and the ribbon of its bounds closes",
    "crossover": "Time against n of several implementations, measured point by point",
    "equations": "A pattern of the Gray–Scott reaction grows from a spot",
}
STATIC = Path(__file__).parent / "images" / "moving"


def linked(text: str) -> str:
    """Return a text with its links to states and stories as addresses."""
    text = STATE.sub(lambda found: state_address(found[1], found[2] or ""), text)
    return STORY.sub(lambda found: story_address(found[1]), text)


def state_address(lab: str, query: str) -> str:
    """Return the address of a lab with the values of `query`. Raise ExtensionError for an invalid value."""
    texts = [unquote(each) for each in query.split("&") if each]
    runs = f"{RUN}=1" in texts
    try:
        values = values_of(lab_class(lab), [each for each in texts if each != f"{RUN}=1"])
        return address(Scene(lab, values), runs)
    except ValueError as error:
        raise ExtensionError(f"state:{lab}?{query}: {error}") from error


def address(scene: Scene, runs: bool = False) -> str:
    """Return the address of a scene. Raise ValueError if the scene cannot be shown."""
    scene.check()
    return f"{SERVER}?{NAME}={packed(scene)}{f'&{RUN}=1' if runs else ''}"


def story_address(name: str) -> str:
    """Return the address of a story. Raise ExtensionError for an unknown one."""
    if name not in [story.name for story in stories().stories]:
        raise ExtensionError(f"story:{name}: there is no such story")
    return f"{SERVER}?story={name}"


class Gallery(SphinxDirective):
    """`{gallery} presets|places`: a card for each state, with its thumbnail and a link that opens it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the cards."""
        cards = "".join({"presets": preset_cards, "places": place_cards}[self.arguments[0]](self.static()))
        return [nodes.raw("", f'<div class="gallery">{cards}</div>', format="html")]

    def static(self) -> str:
        """Return the way from the page to the site's _static folder."""
        return "../" * self.env.docname.count("/") + "_static"


def preset_cards(static: str) -> list[str]:
    """Return the cards of the equations lab's presets."""
    return [
        card(address(Scene("equations", {"text": each.text}), runs=True), f"{static}/equations/{each.name}.webp",
             each.title, each.hints[0] if each.hints else "")
        for each in presets().values()
    ]  # fmt: skip


def place_cards(static: str) -> list[str]:
    """Return the cards of the Mandelbrot lab's places."""
    made = []
    for title, view in places().items():
        values = {"center": view.center, "zoom": view.zoom, "max_iterations": view.max_iterations}
        scene = address(Scene("mandelbrot", values))
        made.append(card(scene, f"{static}/mandelbrot/{file_of(title)}", title, f"zoom {view.zoom}"))
    return made


def card(link: str, picture: str, title: str, words: str) -> str:
    """Return a card as HTML."""
    return (
        f'<a class="card" href="{escape(link)}"><img src="{picture}" alt="" loading="lazy" width="256" height="144">'
        f"<strong>{escape(title)}</strong><span>{escape(words)}</span></a>"
    )


class Moving(SphinxDirective):
    """`{moving} LAB`: the lab's moving picture; a reader who asked the browser for less motion sees a still one."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the picture."""
        lab = self.arguments[0]
        still, moving = f"_static/{lab}-still.webp", f"_static/{lab}.webp"
        html = (
            f'<picture class="moving"><source srcset="{still}" media="(prefers-reduced-motion: reduce)">'
            f'<img src="{moving}" data-still="{still}" alt="{escape(ALT[lab])}" width="480" height="270"></picture>'
        )
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.add_directive("gallery", Gallery)
    app.add_directive("moving", Moving)
