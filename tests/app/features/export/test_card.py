"""The export card: failures of requested exports, and downloads."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from bokeh.document import Document
from msgspec import structs
from PIL import Image

from app.features.export import download as download_module
from app.features.export.download import LONGEST_PAGE, FileDownload
from app.features.export.exports import LOOKS, Exports
from app.features.export.film import FilmSection, ParameterFilm
from app.features.export.sections import (
    LAST_WORDS,
    LinkSection,
    NumbersSection,
    RecordSection,
    TableSection,
    file_job,
    not_made,
)
from app.features.export.source import ExportSource, Moment
from app.page.qr_code import qr
from app.tab.restore import scene_of_lab
from app.tab.tab_recording import TabRecording
from compute.cli import settings
from compute.engine.messages import Act, RecordingProgress, Refused, SnapshotTaken, TakeSnapshot
from compute.engine.recording_store import ENDING, RecordingStore
from compute.export.film import Film
from compute.export.formats import write_npz
from compute.export.jobs import FILE, Job
from compute.export.render import LiveState, Replay
from compute.export.scene import MOST_STEPS, Scene, SceneError, Style
from compute.labs.diffusion import Diffusion
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


class AtOnce:
    """A source that answers immediately."""

    def ask(self, part, then, failed):
        then(part)

    def tick(self):
        pass


def broken(moment):
    raise AttributeError("no such thing")


def refused(moment):
    raise ValueError("Frames must be from 1 to 9, not 0")


def test_what_is_refused_is_told_in_its_own_words(exports, notes):
    export = exports.add("film.mp4")
    export.order(AtOnce(), "field", refused)
    export.show()
    assert (export.state, notes) == ("failed", [("error", "film.mp4 was not made: Frames must be from 1 to 9, not 0")])


def test_an_error_of_ours_ends_the_export_and_is_logged(exports, notes):
    export = exports.add("film.mp4")
    with pytest.raises(AttributeError):  # Bokeh logs it
        export.order(AtOnce(), "field", broken)
    export.show()
    assert export.state == "failed"
    assert notes == [("error", "film.mp4 was not made: AttributeError: no such thing (this is an error of Fieldlab)")]


def test_a_file_that_cannot_be_written_ends_its_job(exports, notes):
    def full(moment):
        raise OSError("no space left")

    export = exports.add("plan.json")
    with pytest.raises(OSError, match="no space"):
        export.ask(AtOnce(), "field", full)
    assert export.state == "failed"


class Asked(list):
    """A session that records its requests."""

    values, view, latest = {}, None, None
    lab = SimpleNamespace(
        LAB="diffusion", PICTURE_SIZE=(), LOCAL=(),
        HISTORY=SimpleNamespace(
            of=lambda lab, values, snapshot: SimpleNamespace(values=values, steps=3, entries=(), missing="")
        ),
    )  # fmt: skip

    def request_snapshot(self):
        self.append("snapshot")


@pytest.fixture
def session():
    return Asked()


@pytest.fixture
def source(session):
    return ExportSource(SimpleNamespace(session=session, controls=SimpleNamespace(style=lambda part: {})))


def test_one_that_fails_takes_no_other_with_it(source, session):
    heard, why = [], []
    source.ask("field", heard.append, why.append)
    source.ask("field", broken, why.append)
    source.ask("field", heard.append, why.append)
    assert session == ["snapshot"]
    with pytest.raises(AttributeError):
        source.on_event(SnapshotTaken({}))
    assert [moment.scene.steps for moment in heard] == [3, 3]
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
    source.on_event(SnapshotTaken({}))
    assert (len(heard), len(why)) == (1, 2)


@pytest.mark.parametrize(
    "event", [Refused("r must be at most 0.25", 7), Refused("no such pen", request=Act), Refused("no such view")]
)
def test_the_refusal_of_something_else_is_not_the_answer(event, source):
    heard, why = [], []
    source.ask("field", heard.append, why.append)
    source.on_event(event)
    assert why == []
    source.on_event(SnapshotTaken({}))
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


@pytest.fixture
def far():
    """Return a session whose diffusion lab is beyond the step limit of a scene, and the answer of its engine."""
    with closing(Diffusion(ny=24, nx=32, backend="cpu_numpy", r=0.1)) as lab:
        lab.advance(7)
        session = Asked()
        session.lab, session.values, session.latest = Diffusion, lab.values(), lab.frame()
        return session, SnapshotTaken(dict(lab.snapshot(), steps=MOST_STEPS + 1))


def source_of(session):
    return ExportSource(SimpleNamespace(session=session, controls=SimpleNamespace(style=lambda part: Style())))


def test_a_lab_that_has_gone_too_far_to_be_made_again_is_exported_as_it_stands(far, tmp_path):
    session, answer = far
    source, heard, why = source_of(session), [], []
    with closing(Diffusion(**session.values)) as lab:
        lab.restore(answer.snapshot)
        field = lab.field()
    source.ask("field", heard.append, why.append)
    source.on_event(answer)
    ((moment,), refused) = heard, why
    assert refused == []
    assert (moment.scene.steps, moment.scene.history, moment.scene.values["r"]) == (0, (), 0.1)
    assert moment.scene.missing == f"steps must be from 0 to {MOST_STEPS}, not {MOST_STEPS + 1}"
    write_npz(Film(moment.scene, frames=1), tmp_path / "a.npz", current=moment.current)
    with np.load(tmp_path / "a.npz") as arrays:
        assert (arrays["field"] == field).all()
    assert moment.scene.missing in (tmp_path / "a.npz.json").read_text(encoding="utf-8")


def test_no_film_is_made_of_a_lab_that_cannot_be_made_again(far, exports, notes):
    session, answer = far
    session.playing = True
    source = source_of(session)
    section = FilmSection(source, exports, {})
    section.what.tick()
    section._make()
    source.on_event(answer)
    (export,) = exports._exports
    export.show()
    assert export.state == "failed"
    assert f"not {MOST_STEPS + 1}: record it instead" in notes[-1][1]


def test_an_estimate_is_dropped_once_a_field_is_edited(far, exports, notes):
    """The estimate remained, and described another film."""
    session, _ = far
    section = FilmSection(source_of(session), exports, {})
    section.what.tick()
    for edit in (
        lambda: section.frames.panel.param.update(value="20"), lambda: section.height.param.update(value=1080),
        lambda: section.easing.param.update(value=section.easing.options[-1]),
        lambda: section.of.param.update(value=section.of.options[-1]),
    ):  # fmt: skip
        cancelled: list[bool] = []
        section._guess = (None, SimpleNamespace(cancel=lambda said=cancelled: said.append(True)))
        section._say("5 s of film: about 12 s and 1 MB")
        edit()
        assert "film" not in section._words.object
        assert (cancelled, section._guess) == ([True], None)


@pytest.mark.parametrize("view", [(0, 0, float("nan"), 5), (5, 5, 0, 0), (0, 0, 1e30, 5)])
def test_a_view_that_no_picture_can_have_ends_what_was_asked_for(far, exports, notes, view):
    session, answer = far
    session.view = view
    source = source_of(session)
    export = exports.add("heat.npz")
    export.order(source, "field", broken)
    source.on_event(answer)
    export.show()
    assert export.state == "failed"
    assert "view must be x0 < x1 and y0 < y1, up to 1e+09 from 0" in notes[-1][1]


def test_an_export_whose_question_is_refused_fails_and_the_next_goes_on(source, exports, notes):
    first = exports.add("heat.npz")
    first.order(source, "field", broken)
    assert first.state == "asking"
    source.on_event(Refused("no room for it", request=TakeSnapshot))
    first.show()
    assert first.state == "failed"
    assert len(notes) == 1
    second = exports.add("heat.json")
    second.ask(source, "field", lambda moment: second.made())
    source.on_event(SnapshotTaken({}))
    assert second.state == "done"


def test_an_export_that_was_cancelled_before_the_answer_does_nothing(source, exports, notes):
    export = exports.add("heat.npz")
    export.order(source, "field", broken)
    exports.drop(export)
    source.on_event(SnapshotTaken({}))
    assert (export.state, export.job, notes) == ("cancelled", None, [])


class Sudden:
    """A job whose state becomes done during the checks: it reads as running `looks` times before."""

    part, words, seconds, result, text, client = 0.9, "encoding", 1.0, None, "", None

    def __init__(self, looks):
        self.looks = looks

    @property
    def state(self):
        self.looks -= 1
        return "running" if self.looks >= 0 else "done"

    def start(self):
        pass

    cancel = start

    def join(self, seconds):
        return True


@pytest.mark.parametrize("looks", range(1, 12))
def test_a_job_that_is_done_while_it_is_looked_at_is_handed_over(exports, monkeypatch, looks):
    sent = []
    monkeypatch.setattr(exports.download, "send", lambda path, name, done: sent.append(name))
    export = exports.add("film.mp4")
    export.path.write_bytes(b"film")
    export.order(AtOnce(), "field", lambda moment: Sudden(looks))
    for _ in range(12):
        if exports._ticking is None:
            break
        exports._tick()
    assert sent == ["film.mp4"]
    assert "saved, 4 bytes" in export._words.object


class Waiting(SimpleNamespace):
    """A job that waits behind two others until its state is changed."""

    state, part, words, seconds, before, over = "waiting", 0.0, "", 0.0, 2, False

    def cancel(self):
        """Do nothing: there is no process."""

    def join(self, seconds):
        """Do nothing: there is no process."""


def test_an_export_that_waits_says_how_many_come_before_it(exports):
    export = exports.add("film.mp4")
    export.job = Waiting()
    export.show()
    assert "<span>waiting for its turn, 2 before it</span>" in export._words.object
    export.job.before = 0
    export.show()
    assert "<span>waiting for its turn</span>" in export._words.object


def test_one_page_has_so_many_exports_under_way(source, exports):
    for number in range(settings.current().exports):
        exports.add(f"{number}.npz").order(source, "field", broken)
    one_more = exports.add("more.npz")
    assert one_more.state == "failed"
    one_more.order(source, "field", broken)
    assert one_more.job is None


class TestLimits:
    """Limits of one page from the server's settings."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setenv(settings.VARIABLE, "")
        settings.hand_on(settings.Settings(exports=2, disk=1))

    def test_so_many_exports(self, source, exports, notes):
        for number in range(2):
            exports.add(f"{number}.npz").order(source, "field", broken)
        assert "2 exports are under way" in exports.add("more.npz").trouble

    def test_so_many_bytes_of_files_that_are_there(self, exports):
        kept = exports.add("a.npz")
        kept.made()
        kept.path.write_bytes(bytes(settings.MIB))
        assert "may take 1 MiB on this server (its setting disk)" in exports.add("b.npz").trouble
        exports.drop(kept)
        assert exports.add("c.npz").state == "asking"

    def test_so_many_bytes_of_what_is_being_made(self, exports, notes):
        export = exports.add("film.mp4")
        job = Endless()
        export.order(AtOnce(), "field", lambda moment: job)
        for _ in range(2 * LOOKS):
            exports._tick()
        assert export.state == "running"
        (export.folder / "frames").mkdir()
        (export.folder / "frames" / "0.png").write_bytes(bytes(settings.MIB))
        for _ in range(2 * LOOKS):
            exports._tick()
        assert (export.state, job.state) == ("failed", "cancelled")
        assert "may take 1 MiB" in notes[-1][1]


class Endless:
    """A job that runs until it is cancelled."""

    def __init__(self):
        self.state, self.part, self.words, self.seconds, self.text, self.client = "running", 0.0, "", 0.0, "", None

    def start(self):
        pass

    def cancel(self):
        self.state = "cancelled"

    def join(self, seconds):
        pass


def test_rows_that_were_not_made_are_told():
    assert not_made({"made": 3}) == ""
    assert not_made({"made": 1, "refused": 2}) == "of 3 rows 2 refused: column why says the reason"


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
    texts = {"a.txt": b"0123456789abcdefghij!", "b.txt": b""}
    got, done = dict.fromkeys(texts, b""), []
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
        download.send(tmp_path / name, name, lambda name=name: done.append(name))
    while download.piece:
        got[download.piece["name"]] += download.piece["data"]
        acknowledge(download)
    assert got == texts
    assert done == ["a.txt", "b.txt"]


def test_an_answer_that_comes_twice_skips_nothing(download, tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(3 * SIZE))
    download.send(tmp_path / "a.txt", "a.txt", lambda: None)
    acknowledge(download)
    acknowledge(download, 0)
    assert download.piece["number"] == 1
    acknowledge(download, 7)
    assert download.piece["number"] == 1


def test_a_file_that_is_deleted_on_its_way_arrives_and_so_does_the_next(download, tmp_path):
    """For example, its export is removed from the list during the transfer, or while the file waits."""
    texts, got = {name: name.encode() * (3 * SIZE) for name in ("a", "b", "c")}, dict.fromkeys("abc", b"")
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
        download.send(tmp_path / name, name, lambda: None)
    for name in ("a", "b"):
        (tmp_path / name).unlink()
    while download.piece:
        got[download.piece["name"]] += download.piece["data"]
        acknowledge(download)
    assert got == texts


def test_files_that_have_not_arrived_are_let_go_with_the_page(download, tmp_path):
    (tmp_path / "a").write_bytes(bytes(3 * SIZE))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        download.send(tmp_path / "a", "a", lambda: None)
    assert len(list(Path("/proc/self/fd").iterdir())) > before + 10
    download.close()
    assert len(list(Path("/proc/self/fd").iterdir())) < before + 10


def test_a_recording_is_not_stopped_while_no_film_can_be_made_of_it():
    """Otherwise it would be lost with the refused export."""
    asked, session = [], SimpleNamespace(
        recording=True, playing=True, record=lambda *about: asked.append("record"),
        stop_recording=lambda: asked.append("stop"),
    )  # fmt: skip
    exports = SimpleNamespace(refusal="")
    section = RecordSection(
        SimpleNamespace(lab=Diffusion, session=session, size=lambda height: (height, height)), exports, lambda: None
    )
    section.toggle()
    exports.refusal = "6 exports are under way"
    section.toggle()
    assert asked == ["record"]
    assert section.recording
    assert "still recording: 6 exports are under way" in section._words.object
    exports.refusal = ""
    section.toggle()
    assert asked == ["record", "stop"]
    section.close()


def test_a_recording_that_ends_by_itself_waits_until_a_film_can_be_made_of_it(tmp_path):
    """The engine ends it at its limit or at the disk's, whatever other exports are running."""
    session, made = SimpleNamespace(recording=True, playing=True, record=lambda *about: None, latest=None), []

    def add(name):
        made.append(SimpleNamespace(folder=tmp_path, path=tmp_path / name, order=lambda *about: None))
        return made[-1]

    exports = SimpleNamespace(refusal="6 exports are under way", add=add)
    section = RecordSection(
        SimpleNamespace(lab=Diffusion, session=session, size=lambda height: (height, height)), exports, lambda: None
    )
    section.what = SimpleNamespace(tick=lambda: True, part="field", axes=False, size=lambda height: (height, height))
    section.toggle()
    (section._folder / "0.frame").write_bytes(b"frame")
    session.recording = False
    section.on_event(RecordingProgress(3, 5, 60, "the bound of 3 frames is reached"))
    for _ in range(2):
        section.tick()
        assert section.recording
        assert section.button.disabled
        assert "3 frames are kept, and made a film as soon as that can be" in section._words.object
    assert not made
    exports.refusal = ""
    section.tick()
    assert len(made) == 1
    assert (tmp_path / "frames" / "0.frame").read_bytes() == b"frame"
    section.tick()
    assert not section.recording
    assert not section.button.disabled


class Reel:
    """A RecordSection with its session; `hear` delivers the events about the end of the recording."""

    def __init__(self, folder):
        self.words, self.made = [], []
        self.handle = SimpleNamespace(closed=False, recording=True, record=self.note, stop_recording=lambda: None)
        self.tape = TabRecording(self.words.append)
        self.session = SimpleNamespace(playing=True, latest=None, recording=False, record=self.record)
        exports = SimpleNamespace(refusal="", add=lambda name: self.film(folder, name))
        source = SimpleNamespace(lab=Diffusion, session=self.session, size=lambda height: (height, height))
        self.section = RecordSection(source, exports, lambda: None)
        self.section.what = SimpleNamespace(
            tick=lambda: True, part="field", axes=False, size=lambda height: (height, height)
        )

    def note(self, *about):
        self.about = about

    def record(self, *about):
        self.tape.start(self.handle, about)
        self.session.recording = self.tape.on

    def film(self, folder, name):
        self.made.append(SimpleNamespace(folder=folder, path=folder / name, order=lambda *about: None))
        return self.made[-1]

    def frames(self, count):
        for number in range(count):
            (self.section._folder / f"{number}{ENDING}").write_bytes(b"frame")

    def hear(self):
        while self.words:
            self.section.on_event(self.words.pop(0))


@pytest.fixture
def reel(tmp_path):
    reel = Reel(tmp_path)
    yield reel
    reel.section.close()


def test_the_frames_of_an_engine_that_gave_up_wait_for_the_words_about_their_end(reel, tmp_path):
    """The session reads the end immediately, and reports it later."""
    reel.section.toggle()
    reel.frames(5)
    reel.tape.on_recorded(RecordingProgress(5, 50, 100))
    reel.tape.give_up(reel.handle, "the sky fell")
    reel.session.recording = reel.tape.on
    assert not reel.session.recording
    reel.section.tick()
    assert reel.section.recording
    reel.hear()
    assert "the sky fell" in reel.section._words.object
    assert len(reel.made) == 1
    assert RecordingStore(tmp_path / "frames").numbers() == list(range(5))
    assert not reel.section.recording


def test_frames_of_whose_end_nobody_tells_are_made_a_film(reel, tmp_path):
    reel.section.toggle()
    reel.frames(3)
    reel.session.recording = False
    for _ in range(LAST_WORDS + 1):
        assert reel.section.recording
        reel.section.tick()
    assert not reel.section.recording
    assert RecordingStore(tmp_path / "frames").numbers() == [0, 1, 2]


def test_frames_that_the_last_words_do_not_count_are_kept(reel, tmp_path):
    reel.section.toggle()
    reel.frames(2)
    reel.session.recording = False
    reel.section.on_event(RecordingProgress(0, 0, 0, "the engine gave up: the sky fell"))
    assert RecordingStore(tmp_path / "frames").numbers() == [0, 1]


def test_a_recording_that_was_refused_ends_at_once_and_its_folder_goes(reel):
    reel.handle.recording = False
    reel.section.toggle()
    folder = reel.section._folder
    for _ in range(2):
        reel.section.tick()
    assert not reel.section.recording
    assert not folder.exists()
    assert reel.made == []


@pytest.fixture
def changed():
    """Return a source and a moment of a lab with r = 0.2 for 10 steps, then r = 0.1; its colour limits are fixed."""
    with closing(Diffusion(ny=24, nx=24, backend="cpu_numpy", limits_field=(0.0, 1.0))) as lab:
        lab.advance(10)
        lab.update(r=0.1, edges="periodic")
        lab.advance(10)
        values, origin = lab.values(), lab.HISTORY.origin(lab)
    scene = scene_of_lab(Diffusion, values, origin, "field", Style(), None)
    source = SimpleNamespace(lab=Diffusion, session=SimpleNamespace(values=values))
    return source, Moment(scene, LiveState(values, origin))


def test_a_table_has_the_values_of_the_sliders_and_not_those_at_the_beginning(changed, exports):
    source, moment = changed
    table = TableSection(source, exports)
    assert table.sweep(moment, ["seed=1,2"]).at(0) == {
        "seed": 1, "ny": 24, "nx": 24, "backend": "cpu_numpy", "r": 0.1, "edges": "periodic",
        "limits_field": (0.0, 1.0),
    }  # fmt: skip
    over = table.sweep(moment, ["r=0.05,0.2"])
    assert [over.at(number)["r"] for number in range(2)] == [0.05, 0.2]


def stood(lab):
    """Return the state of a lab as an export receives it."""
    values, snapshot = lab.values(), lab.snapshot()
    return Moment(scene_of_lab(type(lab), values, snapshot, "", Style(), None), LiveState(values, snapshot))


def refused_table(source, exports, notes, moment, over="seed=1,2"):
    """Return the message about a table that cannot be made from the state at `moment`."""
    source.ask, source.tick = (lambda _part, then, _failed: then(moment)), lambda: None
    table = TableSection(source, exports)
    table.names[0].value, table.values[0].value = over.split("=")
    table._save()
    (export,) = exports._exports
    export.show()
    assert (export.state, export.job) == ("failed", None)
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
def test_no_table_is_made_of_another_field_than_that_which_is_shown(act, says, changed, exports, notes):
    source, _ = changed
    with closing(Diffusion(ny=24, nx=24, backend="cpu_numpy")) as lab:
        act(lab)
        moment = stood(lab)
    said = refused_table(source, exports, notes, moment)
    assert "a table's rows are made from parameters alone" in said
    assert says in said


def test_no_table_is_made_without_a_picture_that_the_options_hold(exports, notes):
    with closing(LCurve(problem="blur", n=8, options={"image": photograph()}, backend="cpu_numpy")) as lab:
        source, moment = SimpleNamespace(lab=LCurve, session=SimpleNamespace(values=lab.values())), stood(lab)
    said = refused_table(source, exports, notes, moment, "noise=0.1,0.2")
    assert "uploaded data: Further options" in said


def test_colours_that_were_fitted_by_hand_are_in_no_table_s_way(changed, exports):
    source, _ = changed
    with closing(Diffusion(ny=24, nx=24, backend="cpu_numpy")) as lab:
        lab.advance(3)
        lab.act("refit")
        assert TableSection(source, exports).sweep(stood(lab), ["seed=1,2"]).count == 2


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
    source.ask, source.tick = (lambda _part, then, _failed: then(moment)), lambda: None
    NumbersSection(source, exports)._save()
    (export,) = exports._exports
    assert (export.job.lane, export.job.keeps) == (FILE, True)
    scene = structs.replace(moment.scene, values={**moment.scene.values, "backend": "gpu_cupy"})
    assert not file_job(lambda tell: None, scene).keeps


def test_an_estimate_that_waits_says_so(changed, exports):
    section = FilmSection(changed[0], exports, {})
    section._guess = object(), Waiting()
    section._read()
    assert "waiting for its turn, 2 before it" in section._words.object
    section._guess[1].state = "running"
    section._read()
    assert "trying a few frames" in section._words.object


ADDRESS = "https://lectures.example/fieldlab/app?"


@pytest.fixture
def linked(exports, source, session, monkeypatch):
    """Return a section whose link was requested, and the query that the browser appends to the page's address."""
    section = LinkSection(source, exports, exports.download)
    session.lab.LAB = "diffusion"
    monkeypatch.setattr("app.features.export.sections.packed", lambda scene: "1.abc")
    monkeypatch.setattr(source, "size", lambda height: (height, height))
    monkeypatch.setattr("app.features.export.source.scene_of_lab", lambda *given: Scene("diffusion", {}))
    section._copy()
    source.on_event(SnapshotTaken({}))
    return section, exports.download.query["text"]


def test_a_copied_link_has_its_qr_code_by_the_address_that_the_browser_names(linked, exports):
    section, query = linked
    exports.download._handle_msg({"address": ADDRESS + query, "copied": True})
    assert section.address.value == ADDRESS + query == f"{ADDRESS}scene=1.abc"
    assert section.code.content == {"link": ADDRESS + query, "code": qr(ADDRESS + query), "note": ""}


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)?{}", "https:///app?{}", "https://[/app?{}", "https://a/app?{}x", "https://a\n/app?{}",
                "https://ä.example/?{}", "https://a/" + LONGEST_PAGE * "a" + "?{}", None, 7]
)  # fmt: skip
def test_what_is_no_address_of_the_page_with_that_link_is_not_shown(address, linked, exports):
    section, query = linked
    exports.download._handle_msg({"address": address.format(query) if isinstance(address, str) else address})
    assert (section.address.value, section.code.content) == ("", {})


def test_no_former_link_stands_beside_the_reason_why_there_is_no_new_one(linked, exports, source, monkeypatch):
    section, query = linked
    exports.download._handle_msg({"address": ADDRESS + query, "copied": True})
    assert section.code.content

    def refused(scene):
        raise SceneError("too long for a link")

    monkeypatch.setattr("app.features.export.sections.packed", refused)
    section._copy()
    source.on_event(SnapshotTaken({}))
    assert "too long for a link" in section._words.object
    assert (section.address.value, section.address.visible, section.code.content) == ("", False, {})


def test_a_link_stays_what_it_is_whatever_the_browser_makes_of_it(linked, exports):
    """Browsers can write the param that transports the link; answers are compared with the server's copy."""
    section, query = linked
    exports.download.query = {"text": "scene=1.other", "again": 5}
    exports.download._handle_msg({"address": f"{ADDRESS}scene=1.other", "copied": True})
    assert section.address.value == ""
    exports.download._handle_msg({"address": ADDRESS + query, "copied": True})
    assert section.address.value == ADDRESS + query


def test_a_browser_that_says_it_again_and_again_is_heard_once(linked, exports, monkeypatch):
    section, query = linked
    shown = []
    monkeypatch.setattr(section.code, "show", shown.append)
    for _ in range(3):
        exports.download._handle_msg({"address": ADDRESS + query, "copied": True})
    assert shown == [ADDRESS + query]
