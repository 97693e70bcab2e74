"""A planned film: what changes on its way, how long, how large; estimated first, then made off the page."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import panel as pn
import panel_material_ui as pmui

from app.controls import column
from app.export.exports import Exports
from app.export.fields import Whole, button, file_name, film_formats, heights, row
from app.export.subject import Moment, Subject
from app.export.ways import Way, ways_of
from app.export.what import What
from app.markup import quiet
from app.theme import stylesheet
from app.views import Ends
from app.widgets import FULL
from compute.export import tasks
from compute.export.film import EASINGS, MOST_FRAMES, RATES, Film
from compute.export.job_queue import QUICK
from compute.export.jobs import Job
from compute.export.scene import SceneError


class FilmSection:
    """The fields of one lab. proposed: ways that the lab proposes, by title."""

    TITLE = "Film"

    def __init__(self, subject: Subject, exports: Exports, proposed: dict[str, Ends]) -> None:
        self._subject, self._exports = subject, exports
        self._makers = ways_of(subject, proposed)
        self._ways: dict[str, Way] = {}
        self._guess: tuple[Film, Job] | None = None
        self.of = pmui.Select(label="Film of", options=list(self._makers), size="small", **FULL)
        self.of.param.watch(lambda event: self._offer(), "value")
        self.what = What(subject)
        self.frames = Whole("Frames", 150, 1, MOST_FRAMES)
        self.rate = Whole("Frames a second", 30, int(RATES[0]), int(RATES[1]))
        self.height, self.form = heights(720), film_formats()
        self.easing = pmui.Select(label="Pace", options=list(EASINGS), value=EASINGS[0], size="small", **FULL)
        self.estimate = button("Estimate", "timer", self._estimate, filled=False)
        self.make = button("Make the film", "movie", self._make)
        self._own = pmui.Column(margin=0, sizing_mode="stretch_width")
        self._words = pn.pane.HTML("", stylesheets=[stylesheet()], margin=(0, 8), sizing_mode="stretch_width")
        numbers, shape = row(self.frames.panel, self.rate.panel), row(self.height, self.form)
        lines = (numbers, shape, row(self.what.field, self.easing), row(self.estimate, self.make))
        self.panel = column(self.of, self._own, *lines, self._words)
        self._offer()

    def tick(self) -> None:
        """Offer what there is now; read how an estimate went."""
        self.make.disabled = self.estimate.disabled = not self.what.tick()
        self._read()

    def close(self) -> None:
        """The page is gone."""
        self._forget()

    # -- inside

    @property
    def _way(self) -> Way:
        return self._ways.setdefault(self.of.value, self._makers[self.of.value]())

    def _offer(self) -> None:
        panel = self._way.panel
        self._own.objects = [] if panel is None else [panel]

    def _film(self, moment: Moment) -> Film:
        """What the fields ask for; SceneError says what is wrong. Values are checked by who makes it, off the page."""
        if moment.scene.missing:
            raise SceneError(f"a film is made from parameters alone, and {moment.scene.missing}: record it instead")
        plan = self._way.plan(moment)
        size = self.what.size(self.height.value)
        plan = replace(plan, scene=replace(plan.scene, size=size, axes=self.what.axes))
        return plan.film(self.frames.value, float(self.rate.value), self.easing.value)

    def _make(self) -> None:
        export = self._exports.add(self._name())

        def job(moment: Moment) -> Job:
            """See Export.order."""
            return Job(partial(tasks.film, self._film(moment), export.path))

        export.order(self._subject, self.what.part, job)

    def _name(self) -> str:
        return file_name(self._subject.lab, "film", self.form.value)

    def _estimate(self) -> None:
        self._forget()
        self._say("trying a few frames …")
        self._subject.ask(self.what.part, self._guessed, self._say)

    def _guessed(self, moment: Moment) -> None:
        self._forget()
        try:
            film = self._film(moment)
        except ValueError as error:
            self._say(str(error))
            return
        self._guess = film, Job(partial(tasks.guess, film, Path(self._name())), QUICK, client=self._exports)
        self._guess[1].start()

    def _forget(self) -> None:
        """No estimate is wanted any more."""
        if self._guess is not None:
            self._guess[1].cancel()
            self._guess = None

    def _read(self) -> None:
        if self._guess is None or not self._guess[1].over:
            return
        (film, guess), self._guess = self._guess, None
        if guess.state == "failed":
            self._say(guess.text)
        elif guess.state == "done":
            later = "" if guess.result.busy else "; longer while a lab runs, which comes first"
            self._say(f"{film.seconds:.3g} s of film: {guess.result.words}{later}")

    def _say(self, words: str) -> None:
        self._words.object = quiet(words)
