"""The export card: failures of requested exports, and downloads."""

from __future__ import annotations

import io
import json
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from bokeh.document import Document
from msgspec import structs
from PIL import Image

from app.features.export import download as download_module
from app.features.export.download import LONGEST_PAGE, FileDownload
from app.features.export.exports import LOOKS, Exports
from app.features.export.film import TRYING, FilmSection, ParameterFilm
from app.features.export.sections import (
    LAST_WORDS,
    LinkSection,
    NumbersSection,
    RecordSection,
    TableSection,
    file_job,
)
from app.features.export.source import ExportSource, Moment
from app.page.qr_code import qr
from app.tab.restore import scene_of_lab
from compute.cli import settings
from compute.engine.messages import Act, RecordingProgress, Refused, SnapshotTaken, TakeSnapshot
from compute.engine.recording_store import ENDING, RecordingStore
from compute.export.film import Film
from compute.export.formats import write_npz
from compute.export.jobs import FILE, Job
from compute.export.render import LiveState, Replay
from compute.export.scene import MOST_STEPS, SceneError, Style
from compute.labs.diffusion import Diffusion
from compute.labs.equations import Equations
from compute.labs.equations.presets import presets
from compute.labs.l_curve import LCurve


class Notes(list):
    def tell(self, kind, words):
        self.append((kind, words))


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def exports(notes):
    exports = Exports(Document(), FileDownload(), lambda: notes)
    yield exports
    exports.close()


def words_of(export):
    """Return the text that the list shows for an export."""
    return export.panel[0].object


def tick(exports):
    """Run the page's periodic callbacks; return whether there are any."""
    callbacks = exports.document.session_callbacks
    for each in callbacks:
        each.callback()
    return bool(callbacks)


class AtOnce:
    """A source that answers immediately."""

    def ask(self, part, then, failed):
        then(part)

    def tick(self):
        pass


def broken(moment):
    raise AttributeError("no such thing")


@pytest.mark.parametrize(
    ("error", "logged", "words"),
    [
        (ValueError("Frames must be from 1 to 9, not 0"), False, "Frames must be from 1 to 9, not 0"),
        (AttributeError("no such"), True, "AttributeError: no such (this is an error of Fieldlab)"),
        (OSError("no space left"), True, "OSError: no space left (this is an error of Fieldlab)"),
    ],
)
def test_an_error_ends_the_export_and_is_reported(exports, notes, error, logged, words):
    def fail(moment):
        raise error

    export = exports.add("film.mp4")
    with pytest.raises(type(error)) if logged else nullcontext():  # Bokeh logs it
        export.order(AtOnce(), "field", fail)
    export.show()
    assert (export.state, notes) == ("failed", [("error", f"film.mp4 was not made: {words}")])


class Asked(list):
    """A session of a diffusion lab that records its requests. answer: the engine's snapshot."""

    lab, view = Diffusion, None

    def __init__(self):
        super().__init__()
        with closing(Diffusion(ny=24, nx=32, backend="cpu_numpy", r=0.1)) as lab:
            lab.advance(7)
            self.values, self.latest, self.answer = lab.values(), lab.frame(), SnapshotTaken(lab.snapshot())

    @property
    def far(self):
        """The answer of a lab beyond the step limit of a scene."""
        return SnapshotTaken(dict(self.answer.snapshot, steps=MOST_STEPS + 1))

    def request_snapshot(self):
        self.append("snapshot")


@pytest.fixture
def session():
    return Asked()


@pytest.fixture
def source(session):
    return ExportSource(SimpleNamespace(session=session, controls=SimpleNamespace(style=lambda part: Style())))


def test_one_that_fails_takes_no_other_with_it(source, session):
    heard, why = [], []
    source.ask("field", heard.append, why.append)
    source.ask("field", broken, why.append)
    source.ask("field", heard.append, why.append)
    assert session == ["snapshot"]
    with pytest.raises(AttributeError):
        source.on_event(session.answer)
    assert [moment.scene.steps for moment in heard] == [7, 7]
    assert why == []


def test_a_refusal_is_told_to_all_who_wait_and_the_next_one_is_answered(source, session):
    """An engine that stops or is left before it answers counts as a refusal: the session reports it."""
    heard, why = [], []
    for _ in range(2):
        source.ask("field", heard.append, why.append)
    source.on_event(Refused("no room for it", request=TakeSnapshot))
    assert (heard, why) == ([], ["the engine did not say how the lab stands: no room for it"] * 2)
    source.ask("field", heard.append, why.append)
    assert session == ["snapshot"] * 2
    source.on_event(session.answer)
    assert (len(heard), len(why)) == (1, 2)


@pytest.mark.parametrize("event", [Refused("r must be at most 0.25", 7), Refused("no such pen", request=Act)])
def test_the_refusal_of_something_else_is_not_the_answer(event, source, session):
    heard, why = [], []
    source.ask("field", heard.append, why.append)
    source.on_event(event)
    assert why == []
    source.on_event(session.answer)
    assert len(heard) == 1


def test_an_engine_that_never_answers_is_waited_for_so_long(source, session, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("app.features.export.source.time.monotonic", lambda: now[0])
    heard, why = [], []
    source.ask("field", heard.append, why.append)
    now[0] += 59
    source.tick()
    assert why == []
    now[0] += 2
    source.tick()
    assert why == ["the engine has not said for 60 s how the lab stands; try it once more"]
    source.ask("field", heard.append, why.append)
    assert session == ["snapshot"] * 2


def test_whoever_waits_when_the_page_goes_is_told(source):
    why = []
    source.ask("field", broken, why.append)
    source.close()
    source.ask("field", broken, why.append)
    assert why == ["the lab was closed before it said how it stands"] * 2


def test_a_lab_that_has_gone_too_far_to_be_made_again_is_exported_as_it_stands(source, session, tmp_path):
    heard, why = [], []
    with closing(Diffusion(**session.values)) as lab:
        lab.restore(session.far.snapshot)
        field = lab.field()
    source.ask("field", heard.append, why.append)
    source.on_event(session.far)
    ((moment,), refused) = heard, why
    assert refused == []
    assert (moment.scene.steps, moment.scene.history, moment.scene.values["r"]) == (0, (), 0.1)
    assert moment.scene.missing == f"steps must be from 0 to {MOST_STEPS}, not {MOST_STEPS + 1}"
    write_npz(Film(moment.scene, frames=1), tmp_path / "a.npz", current=moment.current)
    with np.load(tmp_path / "a.npz") as arrays:
        assert (arrays["field"] == field).all()
    assert moment.scene.missing in (tmp_path / "a.npz.json").read_text(encoding="utf-8")


def test_no_film_is_made_of_a_lab_that_cannot_be_made_again(source, session, exports, notes):
    section = FilmSection(source, exports, {})
    section.tick()
    section.make.clicks += 1
    source.on_event(session.far)
    tick(exports)
    ((kind, words),) = notes
    assert kind == "error"
    assert f"not {MOST_STEPS + 1}: record it instead" in words


@pytest.mark.parametrize("view", [(0, 0, float("nan"), 5), (5, 5, 0, 0)])
def test_a_view_that_no_picture_can_have_ends_what_was_asked_for(source, session, exports, notes, view):
    session.view = view
    export = exports.add("heat.npz")
    export.order(source, "field", broken)
    source.on_event(session.answer)
    export.show()
    assert export.state == "failed"
    assert "view must be x0 < x1 and y0 < y1, up to 1e+09 from 0" in notes[-1][1]


def test_an_export_that_was_cancelled_before_the_answer_does_nothing(source, session, exports, notes):
    export = exports.add("heat.npz")
    export.order(source, "field", broken)
    exports.drop(export)
    source.on_event(session.answer)
    assert (export.state, export.job, notes) == ("cancelled", None, [])


class FakeJob:
    """A job without a process. looks: the reading of its state at which it is done; 0: it never ends by itself."""

    part, words, seconds, result, text, client, before, over = 0.9, "encoding", 1.0, None, "", None, 2, False

    def __init__(self, state="running", looks=0):
        self.now, self.looks = state, looks

    @property
    def state(self):
        self.looks -= 1
        if self.looks == 0:
            self.now = "done"
        return self.now

    def start(self):
        pass

    def cancel(self):
        self.now = "cancelled"

    def join(self, seconds):
        pass


@pytest.mark.parametrize("looks", range(2, 13))
def test_a_job_that_is_done_while_it_is_looked_at_is_handed_over(exports, monkeypatch, looks):
    sent = []
    monkeypatch.setattr(exports.download, "send", lambda path, name, done: sent.append(name))
    export = exports.add("film.mp4")
    export.path.write_bytes(b"film")
    export.order(AtOnce(), "field", lambda moment: FakeJob(looks=looks))
    while tick(exports):
        pass
    assert sent == ["film.mp4"]
    assert "saved, 4 bytes" in words_of(export)


def test_an_export_that_waits_says_how_many_come_before_it(exports):
    export = exports.add("film.mp4")
    export.job = FakeJob("waiting")
    export.show()
    assert "<span>waiting for its turn, 2 before it</span>" in words_of(export)
    export.job.before = 0
    export.show()
    assert "<span>waiting for its turn</span>" in words_of(export)


@pytest.fixture
def bounded(notes, limited):
    """Return the exports of a server that allows two under way, and 1 MiB of files."""
    limited(exports=2, disk=1)
    exports = Exports(Document(), FileDownload(), lambda: notes)
    yield exports
    exports.close()


def test_a_page_has_so_many_exports(source, bounded):
    for number in range(2):
        bounded.add(f"{number}.npz").order(source, "field", broken)
    one_more = bounded.add("more.npz")
    assert "2 exports are under way" in one_more.trouble
    one_more.order(source, "field", broken)
    assert (one_more.state, one_more.job) == ("failed", None)


def test_a_page_has_so_many_bytes_of_files_that_are_there(bounded):
    kept = bounded.add("a.npz")
    kept.made()
    kept.path.write_bytes(bytes(settings.MIB))
    assert "may take 1 MiB on this server (its setting disk)" in bounded.add("b.npz").trouble
    bounded.drop(kept)
    assert bounded.add("c.npz").state == "asking"


def test_a_page_has_so_many_bytes_of_what_is_being_made(bounded, notes):
    export, job = bounded.add("film.mp4"), FakeJob()
    export.order(AtOnce(), "field", lambda moment: job)
    for written, state in ((0, "running"), (settings.MIB, "failed")):
        (export.folder / "0.png").write_bytes(bytes(written))
        for _ in range(2 * LOOKS):
            tick(bounded)
        assert export.state == state
    assert job.state == "cancelled"
    assert "may take 1 MiB" in notes[-1][1]


# -- files that are sent in pieces, to a simulated browser

SIZE = 10


@pytest.fixture
def download(monkeypatch):
    monkeypatch.setattr(download_module, "PIECE", SIZE)
    made = FileDownload()
    yield made
    made.close()


def acknowledge(download, number=None):
    piece = download.piece
    download._handle_msg({"file": piece["file"], "number": piece["number"] if number is None else number})


def test_pieces_follow_each_other_and_files_too(download, tmp_path):
    """Also if the files are deleted in the meantime, as when their exports are removed from the list."""
    texts = {"a.txt": b"0123456789abcdefghij!", "b.txt": b"", "c.txt": 3 * SIZE * b"c"}
    got, done = dict.fromkeys(texts, b""), []
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
        download.send(tmp_path / name, name, lambda name=name: done.append(name))
        (tmp_path / name).unlink()
    while download.piece:
        got[download.piece["name"]] += download.piece["data"]
        acknowledge(download)
    assert got == texts
    assert done == [*texts]


def test_an_answer_that_comes_twice_skips_nothing(download, tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(3 * SIZE))
    download.send(tmp_path / "a.txt", "a.txt", lambda: None)
    acknowledge(download)
    acknowledge(download, 0)
    assert download.piece["number"] == 1
    acknowledge(download, 7)
    assert download.piece["number"] == 1


def test_files_that_have_not_arrived_are_let_go_with_the_page(download, tmp_path):
    (tmp_path / "a").write_bytes(bytes(3 * SIZE))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        download.send(tmp_path / "a", "a", lambda: None)
    assert len(list(Path("/proc/self/fd").iterdir())) > before + 10
    download.close()
    assert len(list(Path("/proc/self/fd").iterdir())) < before + 10


class Reel:
    """A RecordSection and, with the same methods, its source, its session and its list of exports."""

    lab, latest, playing = Diffusion, None, True

    def __init__(self, target):
        self.session, self.target, self.refusal = self, target, ""
        self.recording, self.accepts, self.asked, self.films = False, True, [], []
        self.section = RecordSection(self, self, lambda: None)
        self.section.what = SimpleNamespace(tick=lambda: True, part="field", axes=False, size=self.size)

    def size(self, height):
        return height, height

    def record(self, folder, *about):
        self.asked.append("record")
        self.folder, self.recording = Path(folder), self.accepts

    def stop_recording(self):
        self.asked.append("stop")

    def add(self, name):
        self.films.append(SimpleNamespace(folder=self.target, path=self.target / name, order=lambda *about: None))
        return self.films[-1]

    def ends(self, frames):
        """Write frames, and end the recording as the session reads it; the message about it comes later."""
        for number in range(frames):
            (self.folder / f"{number}{ENDING}").write_bytes(b"frame")
        self.recording = False

    def words(self):
        """Return the text below the button."""
        return self.section.panel[-1].object

    def filmed(self):
        """Return the numbers of the frames of the only film."""
        assert len(self.films) == 1
        return RecordingStore(self.target / "frames").numbers()


@pytest.fixture
def reel(tmp_path):
    reel = Reel(tmp_path)
    yield reel
    reel.section.close()


def test_a_recording_is_not_stopped_while_no_film_can_be_made_of_it(reel):
    """Otherwise it would be lost with the refused export."""
    reel.section.toggle()
    reel.refusal = "6 exports are under way"
    reel.section.toggle()
    assert reel.asked == ["record"]
    assert reel.section.recording
    assert "still recording: 6 exports are under way" in reel.words()
    reel.refusal = ""
    reel.section.toggle()
    assert reel.asked == ["record", "stop"]


def test_a_recording_that_ends_by_itself_waits_until_a_film_can_be_made_of_it(reel):
    """The engine ends it at its limit or at the disk's, whatever other exports are running."""
    reel.refusal = "6 exports are under way"
    reel.section.toggle()
    reel.ends(3)
    reel.section.on_event(RecordingProgress(3, 5, 60, "the bound of 3 frames is reached"))
    for _ in range(2):
        reel.section.tick()
        assert reel.section.recording
        assert reel.section.button.disabled
        assert "3 frames are kept, and made a film as soon as that can be" in reel.words()
    assert not reel.films
    reel.refusal = ""
    for _ in range(2):
        reel.section.tick()
    assert reel.filmed() == [0, 1, 2]
    assert not reel.section.recording
    assert not reel.section.button.disabled


@pytest.mark.parametrize("counted", [2, 0])
def test_the_frames_of_an_engine_that_gave_up_wait_for_the_words_about_their_end(reel, counted):
    """The session reads the end immediately, and reports it later; the message may count no frames."""
    reel.section.toggle()
    reel.ends(2)
    reel.section.tick()
    assert reel.section.recording
    reel.section.on_event(RecordingProgress(counted, 50, 100, "the engine gave up: the sky fell"))
    assert "the sky fell" in reel.words()
    assert reel.filmed() == [0, 1]
    assert not reel.section.recording


def test_frames_of_whose_end_nobody_tells_are_made_a_film(reel):
    reel.section.toggle()
    reel.ends(3)
    for _ in range(LAST_WORDS + 1):
        assert reel.section.recording
        reel.section.tick()
    assert not reel.section.recording
    assert reel.filmed() == [0, 1, 2]


def test_a_recording_that_was_refused_ends_at_once_and_its_folder_goes(reel):
    reel.accepts = False
    reel.section.toggle()
    for _ in range(2):
        reel.section.tick()
    assert not reel.section.recording
    assert not reel.folder.exists()
    assert reel.films == []


@pytest.fixture
def changed():
    """Return (source, moment) of a lab with r = 0.2 for 10 steps, then r = 0.1; its colour limits are fixed."""
    with closing(Diffusion(ny=24, nx=24, backend="cpu_numpy", limits_field=(0.0, 1.0))) as lab:
        lab.advance(10)
        lab.update(r=0.1, edges="periodic")
        lab.advance(10)
        return answering(lab)


def answering(lab):
    """Return (source, moment) of a lab; the source answers immediately."""
    values, snapshot = lab.values(), lab.snapshot()
    moment = Moment(scene_of_lab(type(lab), values, snapshot, "", Style(), None), LiveState(values, snapshot))
    source = SimpleNamespace(
        lab=type(lab), session=SimpleNamespace(values=lab.values()), tick=lambda: None,
        ask=lambda part, then, failed: then(moment),
    )  # fmt: skip
    return source, moment


def test_a_table_has_the_values_of_the_sliders_and_not_those_at_the_beginning(changed, exports):
    source, moment = changed
    table = TableSection(source, exports)
    assert table.sweep(moment, ["seed=1,2"]).at(0) == {
        "seed": 1, "ny": 24, "nx": 24, "backend": "cpu_numpy", "r": 0.1, "edges": "periodic",
        "limits_field": (0.0, 1.0),
    }  # fmt: skip
    over = table.sweep(moment, ["r=0.05,0.2"])
    assert [over.at(number)["r"] for number in range(2)] == [0.05, 0.2]


def test_numbers_of_a_text_are_offered_by_their_names_and_ranges(exports):
    with closing(Equations(ny=8, nx=8, backend="cpu_numpy", p1=0.03)) as lab:
        source, moment = answering(lab)
    table, film = TableSection(source, exports), ParameterFilm(source)
    named = {"F": "p1", "k": "p2", "Du": "p3", "Dv": "p4"}
    for options in (table.names[0].options, table.names[1].options, film.name.options):
        assert named.items() <= options.items()
        assert not {"p5", "p12"} & set(options.values())
    film.name.value = "p1"
    assert [end.value for end in film.ends] == [0.03, 0.1]
    assert table.sweep(moment, ["p1=0.02,0.04"]).axes == {"p1": (0.02, 0.04)}
    source.session.values.update(text=presets()["heat"].text, p1=0.2, p2=None, p3=None, p4=None)
    table.tick()
    film.tick()
    for options in (table.names[0].options, table.names[1].options, film.name.options):
        assert options["D"] == "p1"
        assert "p2" not in options.values()


def test_an_estimate_is_dropped_once_a_field_is_edited(source, session, exports, monkeypatch):
    """The estimate remained, and described another film."""
    cancelled = []

    def cancel(job):
        cancelled.append(job)

    monkeypatch.setattr(Job, "start", lambda job: None)
    monkeypatch.setattr(Job, "cancel", cancel)
    section = FilmSection(source, exports, {})
    section.tick()
    for count, edit in enumerate((
        lambda: section.frames.panel.param.update(value="20"), lambda: section.height.param.update(value=1080),
        lambda: section.easing.param.update(value=section.easing.options[-1]),
        lambda: section.of.param.update(value=section.of.options[-1]),
    )):  # fmt: skip
        section.estimate.clicks += 1
        source.on_event(session.answer)
        assert TRYING in section.panel[-1].object
        edit()
        assert TRYING not in section.panel[-1].object
        assert len(cancelled) == count + 1


def refused_table(source, exports, notes, over="seed=1,2"):
    """Return the message about a table that cannot be made from the state of the source."""
    table = TableSection(source, exports)
    table.names[0].value, table.values[0].value = over.split("=")
    table.save.clicks += 1
    tick(exports)
    return notes[-1][1]


def photograph():
    """Return the bytes of a PNG."""
    file = io.BytesIO()
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda lab: lab.act("paint", points=[[3, 4]], radius=2, value=1), "what was done by hand (paint)"),
        (lambda lab: lab.load_image(photograph()), "what was done by hand (load_image)"),
        (lambda lab: lab.load(np.zeros((24, 24))), "the field was given as an array"),
    ],
)
def test_no_table_is_made_of_another_field_than_that_which_is_shown(act, says, exports, notes):
    with closing(Diffusion(ny=24, nx=24, backend="cpu_numpy")) as lab:
        act(lab)
        source, _ = answering(lab)
    said = refused_table(source, exports, notes)
    assert "a table's rows are made from parameters alone" in said
    assert says in said


def test_no_table_is_made_without_a_picture_that_the_options_hold(exports, notes):
    with closing(LCurve(problem="blur", n=8, options={"image": photograph()}, backend="cpu_numpy")) as lab:
        source, _ = answering(lab)
    said = refused_table(source, exports, notes, "noise=0.1,0.2")
    assert "uploaded data: Further options" in said


def test_colours_that_were_fitted_by_hand_are_in_no_table_s_way(exports):
    with closing(Diffusion(ny=24, nx=24, backend="cpu_numpy")) as lab:
        lab.advance(3)
        lab.act("refit")
        source, moment = answering(lab)
    assert TableSection(source, exports).sweep(moment, ["seed=1,2"]).count == 2


def test_a_film_over_a_parameter_that_was_changed_on_the_way_ends_with_its_own_value(changed):
    source, moment = changed
    kind = ParameterFilm(source)
    kind.name.value = "r"
    kind.ends[0].value, kind.ends[1].value = 0.05, 0.25
    film = kind.plan(moment).film(5, 30.0, "even")
    for index, r in enumerate((0.05, 0.1, 0.15, 0.2, 0.25)):
        with closing(Replay.of(film.at(index))) as replay:
            replay.to(film.at(index).steps)
            assert replay.lab.r == pytest.approx(r)
            assert (replay.lab.edges, replay.steps) == ("periodic", 20)


def test_a_file_is_made_by_a_process_that_goes_on_to_the_next_unless_it_uses_a_gpu(changed, exports, monkeypatch):
    monkeypatch.setattr(Job, "start", lambda job: None)
    source, moment = changed
    NumbersSection(source, exports)._save()
    (export,) = exports._exports
    assert (export.job.lane, export.job.keeps) == (FILE, True)
    scene = structs.replace(moment.scene, values={**moment.scene.values, "backend": "gpu_cupy"})
    assert not file_job(lambda tell: None, scene).keeps


ADDRESS = "https://lectures.example/fieldlab/app?"


@pytest.fixture
def linked(exports, source, session, monkeypatch):
    """Return a section whose link was requested, and the query that the browser appends to the page's address."""
    section = LinkSection(source, exports, exports.download)
    monkeypatch.setattr("app.features.export.sections.packed", lambda scene: "1.abc")
    section._copy()
    source.on_event(session.answer)
    return section, exports.download.query["text"]


def test_a_copied_link_has_its_qr_code_by_the_address_that_the_browser_names(linked, exports, monkeypatch):
    """Browsers can write the param that transports the link, and repeat their answer."""
    section, query = linked
    assert query == "scene=1.abc"
    exports.download.query = {"text": "scene=1.other", "again": 5}
    exports.download._handle_msg({"address": f"{ADDRESS}scene=1.other", "copied": True})
    assert section.address.value == ""
    exports.download._handle_msg({"address": ADDRESS + query, "copied": True})
    assert section.address.value == ADDRESS + query
    assert section.code.content == {"link": ADDRESS + query, "code": qr(ADDRESS + query), "note": ""}
    monkeypatch.setattr(section.code, "show", lambda link: pytest.fail("it is shown again"))
    exports.download._handle_msg({"address": ADDRESS + query, "copied": True})


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)?{}", "https:///app?{}", "https://[/app?{}", "https://a/app?{}x", "https://a\n/app?{}",
                "https://ä.example/?{}", "https://a/" + LONGEST_PAGE * "a" + "?{}", None, 7]
)  # fmt: skip
def test_what_is_no_address_of_the_page_with_that_link_is_not_shown(address, linked, exports):
    section, query = linked
    exports.download._handle_msg({"address": address.format(query) if isinstance(address, str) else address})
    assert (section.address.value, section.code.content) == ("", {})


def test_no_former_link_stands_beside_the_reason_why_there_is_no_new_one(linked, exports, source, session, monkeypatch):
    section, query = linked
    exports.download._handle_msg({"address": ADDRESS + query, "copied": True})
    assert section.code.content

    def refused(scene):
        raise SceneError("too long for a link")

    monkeypatch.setattr("app.features.export.sections.packed", refused)
    section._copy()
    source.on_event(session.answer)
    assert "too long for a link" in section._words.object
    assert (section.address.value, section.address.visible, section.code.content) == ("", False, {})


def test_a_saved_notebook_repeats_the_state(exports, source, session):
    section = LinkSection(source, exports, exports.download)
    section.notebook.clicks += 1
    source.on_event(session.answer)
    (export,) = exports._exports
    assert export.state == "done"
    assert export.name.startswith("fieldlab-diffusion-")
    assert export.name.endswith(".ipynb")
    notebook = json.loads(export.path.read_text(encoding="utf-8"))
    nbformat.validate(nbformat.from_dict(notebook))
    names = {}
    for cell in notebook["cells"][2:4]:
        exec("".join(cell["source"]), names)
    with closing(names["lab"]) as lab:
        assert lab.steps == session.answer.snapshot["steps"]
        assert np.array_equal(lab.field(), session.answer.snapshot["field"])
