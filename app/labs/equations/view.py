"""The main area of the equations lab: its equations, typeset, above the two pictures."""

from __future__ import annotations

from functools import lru_cache
from html import escape

from app.labs.plain.parts import PlainView
from app.page.equations import mathml
from app.page.theme import heading, html_pane
from app.tab.lab_view import Size
from app.tab.session import Session
from compute.labs.equations.forms.sweep import equations
from compute.labs.equations.mathematics import equations as latex
from compute.labs.equations.programs import program_of

LINE = 44  # px of an equation
MOST_SHARE = 0.3  # of the height, for the equations
SMALL = 360  # px: lower windows show no equations


@lru_cache(maxsize=64)
def typeset(text: str) -> str:
    """Return the equations of a valid text as HTML: as MathML, or as plain text if they are too long for it."""
    system = program_of(text).system
    lines = equations(system)
    spoken = escape("; ".join(lines), quote=True)
    try:
        found = mathml(latex(system))
    except ValueError:
        return f"<pre>{escape(chr(10).join(lines))}</pre>"
    return found.replace("<math ", f"<math aria-label='{spoken}' ", 1)


class EquationsView(PlainView):
    """The generic view, with the equations above the pictures."""

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self._text = ""
        self.equations = html_pane("", margin=(4, 8), styles={"overflow": "auto"})
        values = session.values
        self._make(["field", "show"], [], (0.0, 0.0, float(values["nx"]), float(values["ny"])))
        self.panel.insert(0, self.equations)
        self._typeset()

    def _begin(self) -> None:
        """Request no frame before the browser has drawn the plots."""

    def _typeset(self) -> None:
        """Show the equations of the present text."""
        text = self.session.values["text"]
        if text != self._text:
            self._text = text
            self.equations.object = typeset(text)

    def arrange(self) -> None:
        """Give the equations the height of their lines, and the pictures the rest."""
        width, height = self.size
        system = program_of(self.session.values["text"]).system
        lines = len(system.rates) + len(system.named)
        room = 0 if height < SMALL or self.alone else int(min(LINE * lines, MOST_SHARE * height))
        self.equations.param.update(visible=room > 0, height=max(room, 1), width=width, sizing_mode="fixed")
        self.size = (width, height - room - (8 if room else 0))
        try:
            super().arrange()
        finally:
            self.size = (width, height)

    def tick(self) -> None:
        """Update the pictures' scales and titles, and the equations of another text."""
        super().tick()
        frame = self.session.latest
        if frame is not None and self.drawn:
            for column, raster in zip(self._columns, frame.rasters.values(), strict=True):
                title = heading(raster.label).object
                if column[0].object != title:
                    column[0].object = title
        if self.drawn and self._text and self.session.values["text"] != self._text:
            self._typeset()
            self.arrange()
