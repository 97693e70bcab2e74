"""What comes back to the page: a link's address, or the text of a file. All of it is untrusted."""

from __future__ import annotations

from bokeh.document import Document

from app.export.link import NAME
from compute.export.film import SCHEMA as FILM
from compute.export.film import film_of
from compute.export.link import unpacked
from compute.export.scene import Scene, SceneError, read, scene_of


def asked_for(document: Document) -> Scene | None:
    """The scene that the page's address asks for, None if it asks for none; SceneError if it is no good."""
    request = document.session_context.request if document.session_context else None
    values = request.arguments.get(NAME, []) if request else []
    if not values:
        return None
    try:
        return unpacked(values[0].decode("ascii"))
    except UnicodeDecodeError as error:
        raise SceneError("this link is damaged") from error


def scene_in(text: str | None) -> Scene:
    """The scene that a file tells of, a film's first moment; SceneError if there is none in it."""
    if text is None:
        raise SceneError("it does not say how it was made; pictures (PNG) and JSON of Fieldlab do")
    document = read(text)
    return film_of(document).at(0) if document.get("schema") == FILM else scene_of(document)
