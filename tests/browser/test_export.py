"""Exports from the page: an independent reader opens each file, and the page restores its state."""

from __future__ import annotations

import csv
import json
import zipfile

import numpy as np
import pytest
from PIL import Image, ImageSequence
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import expect

from app.page.qr_code import qr
from compute.__main__ import main
from tests.browser.export_page import ExportPage
from tests.browser.lab_page import OPENING, LabPage
from tests.browser.serving import free_port, serve

pytestmark = pytest.mark.extended


class Diffusing(LabPage, ExportPage):
    """The diffusion lab with its export card."""

    def __init__(self, page, server, folder):
        LabPage.__init__(self, page, server)
        self.folder = folder


@pytest.fixture(scope="module")
def opened(lasting, server, tmp_path_factory):
    lab = Diffusing(lasting(), server, tmp_path_factory.mktemp("downloads"))
    lab.page.get_by_role("slider", name="r = D Δt / Δx²").first.focus()
    for r in (0.195, 0.19, 0.185):  # r changes on the way, so the parameters alone do not determine the state
        lab.page.keyboard.press("ArrowLeft")
        lab.until(lambda r=r: lab.fact("r") == r)
    before = lab.step()
    lab.until(lambda: lab.step() > before)
    lab.pause()
    return lab


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    yield opened
    lasting.complain(allowed_errors)


def field_of(lab):
    """Return the levels of the field on the screen, with row 0 at the bottom."""
    return np.array(lab.page.evaluate("Array.from(Bokeh.documents[0].get_model_by_name('frames').data.field[0])"))


def test_a_picture_and_a_link_restore_the_state(lab, page, new_page, server, tmp_path):
    """The PNG is rendered from the state; its metadata reproduces the same bytes, and the same state on a page."""
    lab.show("Picture")
    lab.choose("Height [pixels]", "720")
    path = lab.download("Save the picture")
    with Image.open(path) as picture:
        scene = json.loads(picture.text["fieldlab"])
        assert picture.size == (720, 720)
        pixels = np.asarray(picture.convert("RGB"))
    assert scene["steps"] == lab.step() > 0
    assert len(scene["history"]) >= 1
    again = tmp_path / "again.png"
    assert main(["render", str(path), "--out", str(again)]) == 0
    assert (np.asarray(Image.open(again).convert("RGB")) == pixels).all()
    other = Diffusing(new_page(), server, tmp_path)
    other.drop(path, "image/png")
    other.until(lambda: "Restored" in other.notes(), OPENING)  # the state is computed at low priority
    shows_the_same(other, lab)
    other.page.close()

    lab.show("Link")
    lab.page.get_by_role("button", name="Copy the link").click()
    link = lab.page.get_by_label("Address")
    lab.until(lambda: "?scene=1." in link.input_value() == lab.page.url)
    page.goto(lab.page.url)
    shows_the_same(Diffusing.of(page, folder=tmp_path), lab)


def shows_the_same(other, lab):
    """Wait until `other` shows the paused state of `lab`; either picture may lag behind its step number."""
    other.until(lambda: other.step() == lab.step(), OPENING)
    other.until(lambda: np.array_equal(field_of(other), field_of(lab)))
    other.until(lambda: "Paused" in other.status())


HALL = "hall.localhost"  # a public-looking name: browsers resolve *.localhost to this machine


def test_the_qr_code_of_a_link_can_be_enlarged_for_the_room(new_page, tmp_path):
    port = free_port()
    with serve(tmp_path, ["--allow-websocket-origin", f"{HALL}:{port}"], port=port):
        page = new_page()
        page.goto(f"http://{HALL}:{port}/app", wait_until="commit")
        lab = Diffusing.of(page, folder=tmp_path)
        lab.until(lambda: lab.step() > 0, OPENING)
        lab.key(" ")
        lab.show("Link")
        page.get_by_role("button", name="Copy the link").click()
        code = page.get_by_role("button", name="QR code of the link; enlarge it")
        code.wait_for()
        link = page.get_by_label("Address").input_value()
        assert link.startswith(f"http://{HALL}:{port}/app?scene=1.")
        code.focus()
        page.keyboard.press("Enter")
        picture = page.get_by_role("dialog", name="QR code").get_by_role("img", name=f"QR code of {link}")
        expect(picture.locator("path")).to_have_attribute("d", qr(link)["path"])
        picture.click(trial=True)  # fails if it is covered
        box = picture.bounding_box()
        assert box["width"] == pytest.approx(box["height"], abs=1)
        assert 0.75 * page.viewport_size["height"] <= box["height"] <= page.viewport_size["height"] - box["y"]
        page.keyboard.press("e")  # a shortcut of the page, which is covered
        page.keyboard.press("Escape")
        picture.wait_for(state="hidden")
        expect(code).to_be_focused()
        page.close()


def test_drawings_are_saved_and_restore_the_state(lab, new_page, server, tmp_path):
    """Also a drawing of an earlier version, which stores the scene in a tEXt chunk."""
    lab.show("Picture")
    lab.choose("What", "Profile on the section line")
    saved = {}
    for form, head in {"SVG": b"<?xml", "PDF": b"%PDF-", "PNG with axes": b"\x89PNG"}.items():
        lab.choose("Format", form)
        saved[form] = lab.download("Save the picture")
        assert saved[form].read_bytes().startswith(head), form
    path, older = saved["PNG with axes"], tmp_path / "older.png"
    with Image.open(path) as picture:
        scene = json.loads(picture.text["fieldlab"])
        farther = {**scene, "steps": scene["steps"] + 7}
        about = PngInfo()
        about.add_text("Software", "Matplotlib")
        about.add_text("fieldlab", json.dumps(farther))
        picture.save(older, pnginfo=about)
    other = Diffusing(new_page(), server, tmp_path)
    other.pause()
    for file, expected in ((path, scene), (older, farther)):
        other.drop(file, "image/png")
        other.until(lambda expected=expected: other.step() == expected["steps"], OPENING)


def test_numbers_are_those_of_the_state(lab):
    lab.show("Numbers")
    lab.choose("Format", "NPZ (NumPy)")
    with np.load(lab.download("Save the numbers")) as numbers:
        plan = json.loads(str(numbers["fieldlab"]))
        field = numbers["field"]
    assert field.shape == (512, 512)
    assert plan["steps"] == lab.step()
    lab.choose("Format", "Zarr, zipped")
    import zarr

    path = lab.download("Save the numbers")
    assert zipfile.ZipFile(path).testzip() is None
    with zarr.storage.ZipStore(path, mode="r") as store:
        group = zarr.open_group(store, mode="r")
        assert group["field"].shape == (1, 512, 512)
        assert np.array_equal(group["field"][0], field)


def test_a_table_over_parameters(lab):
    lab.show("Numbers")
    lab.choose("Over", "r = D Δt / Δx²")
    lab.fill("Values", "0.05, 0.1, 0.2")
    lab.fill("Steps of each row", 10)
    with lab.download("Make the table").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert [float(row["r"]) for row in rows] == [0.05, 0.1, 0.2]
    assert {row["status"] for row in rows} == {"made"}
    assert {float(row["step"]) for row in rows} == {10}
    assert all(float(row["compute_ms"]) > 0 for row in rows)


def frames_of(path):
    """Return the frames of a GIF as arrays of RGB."""
    with Image.open(path) as picture:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(picture)]


@pytest.mark.parametrize("form", ["MP4", "GIF"])
def test_a_planned_film_has_its_frames(lab, form):
    lab.show("Film")
    lab.choose("Height [pixels]", "360")
    lab.fill("Frames", 7)
    lab.choose("Format", form)
    path = lab.download("Make the film")
    assert path.suffix == f".{form.lower()}"
    if form == "GIF":
        frames = frames_of(path)
        assert [frame.shape for frame in frames] == [(360, 360, 3)] * 7
        assert np.abs(frames[0].astype(int) - frames[-1]).max() > 3  # the frames differ


def test_a_wrong_number_is_reported_and_makes_no_film(lab):
    lab.show("Film")
    lab.fill("Frames", "2.5")
    lab.page.locator("p.Mui-error").get_by_text("must be a whole number, not '2.5'").wait_for()
    lab.page.get_by_role("button", name="Make the film").click()
    lab.until(lambda: "was not made: Frames" in lab.notes())
    lab.fill("Frames", 7)
    lab.page.locator("p.Mui-error").wait_for(state="detached")


def test_films_are_estimated_paused_and_cancelled_and_delay_no_numbers(lab):
    lab.show("Film")
    lab.fill("Frames", 100)
    lab.page.get_by_role("button", name="Estimate").click()
    words = lab.until(lambda: next(iter(lab.page.get_by_text("estimated from").all_inner_texts()), ""), OPENING)
    assert "3.33 s of film: about" in words
    lab.fill("Frames", 30_000)
    running, films = lab.page.locator(".job.running"), lab.page.locator(".job.running, .job.waiting")
    for _ in range(2):  # on a machine with few cores one of the two is queued
        lab.page.get_by_role("button", name="Make the film").click()
    lab.until(lambda: running.count() >= 1)
    lab.page.get_by_role("button", name="Estimate").click()
    lab.until(lambda: lab.page.get_by_text("1e+03 s of film").count(), OPENING)
    lab.show("Numbers")
    lab.choose("Format", "NPZ (NumPy)")
    with np.load(lab.download("Save the numbers")) as numbers:
        assert numbers["field"].shape == (512, 512)
    assert running.count() >= 1
    lab.until(lambda: films.count() == 2)
    lab.page.get_by_role("button", name="Cancel", exact=True).last.click()
    lab.until(lambda: films.count() == running.count() == 1)
    lab.page.get_by_role("button", name="Pause", exact=True).last.click()
    lab.until(lambda: lab.page.locator(".job.paused").count() == 1)
    lab.page.get_by_role("button", name="Cancel", exact=True).first.click()
    lab.until(lambda: lab.page.locator(".job.paused").count() == films.count() == 0)


def test_a_running_lab_is_recorded_at_every_kth_step(lab):
    lab.show("Record")
    lab.choose("Height [pixels]", "360")
    lab.choose("Format", "GIF")
    lab.fill("Every k-th step", 30)
    lab.page.get_by_role("button", name="Record", exact=True).last.click()
    before = lab.step()
    lab.key(" ")
    lab.until(lambda: lab.step() > before + 200)
    lab.pause()
    frames = frames_of(lab.download("Stop"))
    assert len(frames) >= 6
    assert frames[0].shape == (360, 360, 3)
    steps = lab.step() - before
    assert len(frames) == 1 + steps // 30
