"""Undo and redo: every change of a field can be undone, one by one, within documented limits."""

from __future__ import annotations

import numpy as np
import pytest

from compute.files.images import LoadedPicture
from compute.lab import undo
from compute.labs.diffusion import Diffusion


@pytest.fixture
def lab():
    lab = Diffusion(ny=24, nx=24, preset="gaussian", backend="cpu_numpy")
    yield lab
    lab.close()


def stroke(lab, *xs):
    """Send a stroke of the brush with one request per position."""
    for number, x in enumerate(xs):
        lab.act("paint", points=[(x, x)], value=2.0, radius=2.0, begins=number == 0)


def test_every_change_is_undone_and_redone_one_by_one(lab):
    seen = [lab.field()]

    def see():
        seen.append(lab.field())

    stroke(lab, 4.0, 5.0, 6.0)
    see()
    stroke(lab, 18.0, 17.0)
    see()
    lab.update(preset="ring")
    see()
    lab.update(preset="step")  # choosing the ring counts, although no step was computed from it
    see()
    lab.advance(3)
    see()
    lab.act("reset")
    see()
    for field in (seen[-2], seen[-4], seen[-5], seen[1], seen[0]):
        lab.act("undo")
        np.testing.assert_array_equal(lab.field(), field)
    assert lab.preset == "gaussian"
    with pytest.raises(ValueError, match="nothing to undo"):
        lab.act("undo")
    for field in (seen[1], seen[2], seen[3], seen[5], seen[6]):
        lab.act("redo")
        np.testing.assert_array_equal(lab.field(), field)
    assert (lab.preset, lab.steps) == ("step", 0)
    with pytest.raises(ValueError, match="nothing to redo"):
        lab.act("redo")


def test_a_new_change_ends_redo_and_a_refused_one_does_not(lab):
    stroke(lab, 4.0, 5.0)
    lab.act("undo")
    assert lab.frame().notes["redo"] == "gaussian at step 0"
    with pytest.raises(ValueError, match="radius"):
        lab.act("paint", points=[(9.0, 9.0)], value=1.0, radius=99.0)
    lab.act("redo")
    lab.act("undo")
    before = lab.field()
    # its first request may have been refused; the following ones do not belong to the undone stroke
    lab.act("paint", points=[(9.0, 9.0)], value=1.0, radius=2.0, begins=False)
    assert lab.frame().notes["redo"] == ""
    lab.act("undo")
    np.testing.assert_array_equal(lab.field(), before)


def undone(lab):
    """Undo all changes that were kept; return their number."""
    number = 0
    while lab.frame().notes["undo"]:
        lab.act("undo")
        number += 1
    with pytest.raises(ValueError, match="older fields were discarded"):
        lab.act("undo")
    return number


def test_the_number_of_kept_fields_is_limited(lab, monkeypatch):
    monkeypatch.setattr(undo, "MOST_KEPT", 3)
    for x in range(3):
        stroke(lab, 4.0 + x)
    assert lab.frame().notes["gone"] == ""
    stroke(lab, 10.0)
    assert "older fields were discarded: the limit is 3 fields or" in lab.frame().notes["gone"]
    assert undone(lab) == 3


@pytest.mark.parametrize(("bytes_", "kept"), [(int(4.5 * 100 * 100 * 4), 3), (1, 1)])
def test_the_kept_bytes_are_limited_and_a_shared_checkpoint_counts_once(monkeypatch, bytes_, kept):
    """Four fields fit: three and their common checkpoint. The latest is always kept."""
    monkeypatch.setattr(undo, "MOST_BYTES", bytes_)
    lab = Diffusion(ny=100, nx=100, preset="gaussian", backend="cpu_numpy")
    lab.act("checkpoint")
    for x in range(9):
        stroke(lab, 4.0 + x)
    assert undone(lab) == kept


def test_nothing_is_undone_after_a_replayed_history_or_an_opened_link(lab):
    stroke(lab, 4.0, 5.0)
    lab.advance(2)
    recorded = Diffusion.HISTORY.of(Diffusion, lab.values(), lab.snapshot())
    assert [set(entry["with"]) for entry in recorded.entries] == [{"points", "value", "radius"}] * 2
    twin = Diffusion(**{**recorded.values, "backend": "cpu_numpy"})
    for entry in recorded.entries:
        twin.HISTORY.apply(twin, entry)
    assert twin.frame().notes["undo"] == ""
    twin.update(ny=32, nx=32, preset="ring")
    twin.restore(Diffusion(ny=32, nx=32, preset="ring", backend="cpu_numpy").snapshot())
    assert twin.frame().notes["undo"] == ""


def test_another_grid_ends_undo_with_the_reason(lab):
    stroke(lab, 4.0)
    lab.update(ny=32)
    assert (lab.frame().notes["undo"], lab.frame().notes["gone"]) == ("", "the grid is another")


def test_an_option_changed_again_later_is_a_separate_change(lab):
    now = 0.0
    lab.earlier.clock = lambda: now
    lab.update(preset="hot spots")
    lab.advance(100)
    for seed in (3, 2, 1):  # a drag, while the lab runs
        lab.update(seed=seed)
        lab.advance(2)
        now += 0.9 * undo.PAUSE
    lab.advance(498)
    now += 1.1 * undo.PAUSE
    lab.update(seed=2)
    lab.act("undo")
    assert (lab.steps, lab.seed) == (500, 1)
    lab.act("undo")
    assert (lab.steps, lab.seed) == (100, 0)


# -- memory of stored data


def picture(number, size=2**20):
    """Return a picture of `size` bytes, without the file that a history could contain."""
    side = int(size**0.5)
    return LoadedPicture(np.full((side, side), number, np.uint8), 1, side, side, f"{number:016x}")


def test_kept_pictures_count_and_a_shared_one_once(lab, monkeypatch):
    """The fields of this grid are small: their pictures were not counted, and 20 of them took a gigabyte."""
    monkeypatch.setattr(undo, "MOST_BYTES", 5 * 2**20)
    for number in range(9):
        lab.act("load_image", data=picture(number))
    assert "older fields were discarded" in lab.frame().notes["gone"]
    for x in range(3):
        stroke(lab, 4.0 + x)  # on the same picture
    assert lab.earlier.held <= undo.MOST_BYTES
    assert 5 <= undone(lab) <= 8


def test_the_fields_of_all_labs_share_a_limit_that_a_closed_lab_releases(limited):
    limited(memory=64)
    labs = [Diffusion(ny=1024, nx=1024, preset="gaussian", backend="cpu_numpy") for _ in range(3)]  # 4 MiB a field
    for x in range(10):
        for each in labs:
            each.act("paint", points=[(10.0 + x, 10.0)], value=1.0, radius=2.0)
    held = [each.earlier.held for each in labs]
    assert 50 * 2**20 < sum(held) <= 64 * 2**20
    assert max(held) - min(held) <= 5 * 2**20  # the lab with the most fields discards first
    gone = labs[0].frame().notes["gone"]
    assert gone == "older fields were discarded: the limit of all pages is 64 MiB on this server (its setting memory)"
    labs[0].close()
    labs[1].close()
    for x in range(14):
        stroke(labs[2], 30.0 + x)
    assert 55 * 2**20 < labs[2].earlier.held <= 64 * 2**20
    assert [each.earlier.held for each in labs[:2]] == [0, 0]
    labs[2].close()


def test_a_field_without_memory_is_not_kept(lab, monkeypatch):
    lab.advance(3)
    monkeypatch.setattr("compute.lab.undo.Host.free_bytes", lambda self: 4 * 24 * 24)
    lab.act("reset")
    assert lab.steps == 0
    assert lab.frame().notes["undo"] == ""


def test_a_field_larger_than_the_limit_is_not_kept(limited):
    limited(memory=64)
    lab = Diffusion(ny=4096, nx=4200, preset="gaussian", backend="cpu_numpy")
    lab.act("paint", points=[(10.0, 10.0)], value=1.0, radius=2.0)
    assert lab.earlier.held == 0
    with pytest.raises(ValueError, match="its setting memory"):
        lab.act("undo")
    lab.close()
