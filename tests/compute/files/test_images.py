"""Uploaded pictures: levels, transparency, orientation and reduction, compared with explicit arithmetic."""

from __future__ import annotations

import base64
import io
import pickle
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile

from compute.export.decoding import limited_memory
from compute.files import images
from compute.files.images import KEPT_PIXELS, LONGEST_SIDE, MOST_ABOUT, MOST_SCANS, LoadedPicture, essential
from compute.lab.loaded import kept_bytes
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from tests.hostile_files import black, chunk, photograph, png, rows, saved, scans


def field_of(data: bytes, ny: int, nx: int) -> np.ndarray:
    """Return the field as in a notebook, row 0 at the top."""
    lab = Diffusion(ny=ny, nx=nx, dtype="float64", backend="cpu_numpy")
    lab.load_image(data)
    made = lab.field()[::-1]
    lab.close()
    return made


def test_a_picture_in_16_bits_keeps_its_levels_and_is_averaged_in_16_bits():
    """White is 65535 for any content, and 4096 levels remain distinct."""
    ramp = np.arange(4096, dtype=np.uint16).reshape(64, 64)
    data = png(64, 64, rows(ramp), depth=16)
    made = field_of(data, 64, 64)
    np.testing.assert_allclose(made, ramp / 65535, rtol=1e-14)
    assert np.unique(made).size == 4096
    means = ramp.reshape(16, 4, 16, 4).mean(axis=(1, 3))
    np.testing.assert_allclose(field_of(data, 16, 16) * 65535, means, atol=0.51)


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_grey_in_fewer_bits_runs_from_black_to_white(depth):
    levels = (np.arange(8) % 2**depth).astype(np.uint8)
    packed = np.packbits(np.unpackbits(levels[:, None], axis=1)[:, -depth:].ravel()).tobytes()
    made = field_of(png(8, 8, (b"\0" + packed) * 8, depth=depth), 8, 8)
    np.testing.assert_allclose(made[3], levels / (2**depth - 1), atol=0.5 / 255)


RED, GREEN, BLUE = 0.299, 0.587, 0.114  # ITU-R BT.601, as in JPEG


def test_colours_are_weighted_by_luminance():
    colours = np.array([[(255, 0, 0), (0, 255, 0), (0, 0, 255), (10, 200, 90)]] * 4, np.uint8)
    made = field_of(png(4, 4, rows(colours), colour=2), 4, 4)
    expected = colours @ np.array([RED, GREEN, BLUE]) / 255
    np.testing.assert_allclose(made, expected, atol=1 / 255)


def over_white(grey, alpha):
    """Return the visible level on a white background."""
    alpha = np.asarray(alpha, float)
    return (grey * alpha + 255 * (255 - alpha)) / 255


@pytest.mark.parametrize("kind", ["RGBA", "LA"])
def test_transparent_pixels_show_white(kind):
    """Black text on a transparent background used to be a black square."""
    grey, alpha = np.mgrid[0:256:17, 0:256:17].astype(np.uint8)
    channels = [grey, grey, grey, alpha] if kind == "RGBA" else [grey, alpha]
    data = png(16, 16, rows(np.stack(channels, axis=-1)), colour=6 if kind == "RGBA" else 4)
    np.testing.assert_allclose(255 * field_of(data, 16, 16), over_white(grey.astype(float), alpha), atol=1)


def test_a_palette_s_transparent_entry_shows_white():
    palette = bytes([200, 200, 200, 0, 0, 0, 90, 90, 90])
    indices = np.array([[0, 1, 2, 1]] * 4, np.uint8)
    data = png(4, 4, rows(indices), chunk(b"PLTE", palette), chunk(b"tRNS", bytes([255, 0, 128])), colour=3)
    expected = [200, 255, over_white(90.0, 128), 255]
    np.testing.assert_allclose(255 * field_of(data, 4, 4)[1], expected, atol=1)


@pytest.mark.parametrize(("depth", "kind", "white"), [(8, np.uint8, 255), (16, np.uint16, 65535)])
def test_the_transparent_level_of_a_grey_picture_shows_white(depth, kind, white):
    levels = np.array([[0, 77, 78, 0]] * 4, kind)
    data = png(4, 4, rows(levels), chunk(b"tRNS", struct.pack(">H", 77)), depth=depth)
    np.testing.assert_allclose(field_of(data, 4, 4)[0] * white, [0, white, 78, 0], atol=1e-9)


def test_printing_colours_become_grey():
    """No ink is white, black ink black; cyan ink removes red."""
    inks = Image.new("CMYK", (48, 16))
    inks.paste((0, 0, 0, 255), (16, 0, 32, 16))
    inks.paste((255, 0, 0, 0), (32, 0, 48, 16))
    made = field_of(saved(inks, "JPEG", quality=100, subsampling=0), 16, 48)
    np.testing.assert_allclose(made[8, [8, 24, 40]], [1, 0, GREEN + BLUE], atol=0.02)


def exif(orientation: int, order: str = ">") -> bytes:
    """Return an EXIF record with this orientation, built by hand."""
    head = b"MM\0*" if order == ">" else b"II*\0"
    return head + struct.pack(f"{order}IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


CORNERS = np.array([[10, 20, 30], [40, 50, 60]], np.uint8)  # as stored; upright by EXIF's positions of row 0, column 0
UPRIGHT = {
    1: [[10, 20, 30], [40, 50, 60]],  # top, left
    2: [[30, 20, 10], [60, 50, 40]],  # top, right
    3: [[60, 50, 40], [30, 20, 10]],  # bottom, right
    4: [[40, 50, 60], [10, 20, 30]],  # bottom, left
    5: [[10, 40], [20, 50], [30, 60]],  # left, top
    6: [[40, 10], [50, 20], [60, 30]],  # right, top
    7: [[60, 30], [50, 20], [40, 10]],  # right, bottom
    8: [[30, 60], [20, 50], [10, 40]],  # left, bottom
}


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_a_picture_is_turned_upright(orientation, order):
    data = png(3, 2, rows(CORNERS), chunk(b"eXIf", exif(orientation, order)))
    expected = np.array(UPRIGHT[orientation])
    picture = LoadedPicture.read(data)
    np.testing.assert_array_equal(picture.levels, expected)
    assert (picture.height, picture.width) == expected.shape
    large = Image.fromarray(np.kron(CORNERS, np.ones((16, 16), np.uint8)))
    record = b"Exif\0\0" + exif(orientation, order)
    turned = LoadedPicture.read(saved(large, "JPEG", quality=100, exif=record)).levels[8::16, 8::16]
    np.testing.assert_allclose(turned, expected, atol=2)


@pytest.mark.parametrize(
    "record",
    [b"", b"MM\0*", b"MM\0*" + b"\xff" * 4, exif(0), exif(9), exif(6)[:-7], b"MM\0*" + struct.pack(">IH", 8, 65535)],
)
def test_a_damaged_orientation_is_none(record):
    levels = LoadedPicture.read(png(3, 2, rows(CORNERS), chunk(b"eXIf", record))).levels
    np.testing.assert_array_equal(levels, CORNERS)


def test_the_first_frame_of_an_animation_is_read():
    frames = [Image.new("L", (8, 8), level) for level in (40, 200)]
    data = saved(frames[0], "PNG", save_all=True, append_images=frames[1:], duration=100)
    assert b"fdAT" in data
    np.testing.assert_array_equal(LoadedPicture.read(data).levels, np.full((8, 8), 40))
    both = saved(frames[0], "MPO", save_all=True, append_images=frames[1:])
    np.testing.assert_allclose(LoadedPicture.read(both).levels, np.full((8, 8), 40), atol=1)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize(("height", "width", "most"), [(12, 20, 60), (13, 7, 10), (5, 5, 24), (1, 40, 9), (6, 6, 36)])
def test_reduction_is_the_mean_of_squares(height, width, most, kind):
    """k is the smallest that fits; each square's mean is rounded half up, also for squares cut off at the border."""
    rng = np.random.default_rng(height)
    levels = rng.integers(0, np.iinfo(kind).max, (height, width), kind, endpoint=True)
    k = next(k for k in range(1, 100) if -(-height // k) * -(-width // k) <= most)
    assert images.factor(height, width, most) == k
    squares = [[levels[y : y + k, x : x + k] for x in range(0, width, k)] for y in range(0, height, k)]
    expected = [[(2 * int(one.sum(dtype=object)) + one.size) // (2 * one.size) for one in row] for row in squares]
    np.testing.assert_array_equal(images.reduced(levels, k), expected)


def test_a_large_picture_is_reduced_and_keeps_its_original_size():
    picture = LoadedPicture.read(black())
    assert (picture.width, picture.height) == (7071, 7071)
    assert picture.levels.size <= KEPT_PIXELS
    assert not picture.levels.any()
    assert kept_bytes([picture]) < KEPT_PIXELS + 2 * len(black())
    assert picture.kept(90, 160).words == "the middle 7071 × 3977 of 7071 × 7071 pixels"


def test_a_part_of_a_reduced_picture_has_its_position_in_the_file(monkeypatch):
    """For any k, the field of a linear ramp, cropped in the middle, is the same within a pixel."""
    ramp = np.tile(np.linspace(0, 65535, 301).round().astype(np.uint16), (101, 1))
    data = png(301, 101, rows(ramp), depth=16)
    whole = LoadedPicture.read(data).field(20, 20)
    monkeypatch.setattr(images, "KEPT_PIXELS", 301 * 101 // 12)
    picture = LoadedPicture.read(data)
    assert picture.side == 4
    np.testing.assert_allclose(picture.field(20, 20), whole, atol=2 / 300)


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("size", [(640, 480), (48, 64)])  # the first file is too large for a history
def test_a_replay_from_a_history_computes_with_the_same_numbers(depth, size):
    """Also if the history contains a smaller picture than the loaded one."""
    rng = np.random.default_rng(4)
    levels = rng.integers(0, 2**depth, size, np.uint16 if depth == 16 else np.uint8)
    lab = Diffusion(ny=50, nx=70, backend="cpu_numpy", dtype="float64")
    lab.load_image(png(size[1], size[0], rows(levels), depth=depth))
    (entry,) = lab.history.entries
    twin = Diffusion(ny=50, nx=70, backend="cpu_numpy", dtype="float64")
    twin.HISTORY.apply(twin, entry)
    np.testing.assert_array_equal(twin.field(), lab.field())
    assert len(base64.b64decode(entry["with"]["data"])) <= images.KEPT_FILE


BOUNDS = {
    "a side": (lambda: png(LONGEST_SIDE + 1, 1, bytes(LONGEST_SIDE + 2)), "32,768 pixels a side"),
    "pixels": (lambda: png(10_000, 10_000), "50,000,000 pixels"),
    "scans": (lambda: scans(MOST_SCANS, 64), "at most 64 scans"),
    "chunks": (lambda: png(8, 8, bytes(72), *[chunk(b"abCd", b"")] * 20_000), "20,000 chunks"),
    "frames": (lambda: png(8, 8, bytes(72), after=[chunk(b"fcTL", bytes(26))] * 1001), "1,000 frames"),
    "text": (lambda: png(8, 8, bytes(72), chunk(b"iTXt", bytes(MOST_ABOUT + 1))), "4 MiB of text and profiles"),
    "profile": (lambda: png(8, 8, bytes(72), chunk(b"iCCP", bytes(MOST_ABOUT + 1))), "4 MiB of text and profiles"),
    "records": (lambda: photograph(64)[:2] + (b"\xff\xe1\xff\xff" + bytes(65533)) * 65 + photograph(64)[2:], "4 MiB"),
    "two sizes": (lambda: photograph(64)[:-2] + b"\xff\xc2\0\x0b\x08\x10\0\x10\0\x01\x01\x11\0\xff\xd9", "one size"),
    "no pixels": (lambda: png(0, 5), "image must have pixels, not 0 x 5"),
}


@pytest.mark.parametrize("which", BOUNDS)
def test_limits_are_enforced_before_decoding(which, monkeypatch):
    data, words = BOUNDS[which][0](), BOUNDS[which][1]
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("it was decoded"))
    with pytest.raises(ValueError, match=words) as refused:
        LoadedPicture.read(data)
    assert str(refused.value).startswith("image ")


def test_pictures_within_the_limits_are_read():
    flat = png(LONGEST_SIDE, 1, bytes(LONGEST_SIDE + 1))
    assert LoadedPicture.read(flat).levels.shape == (1, LONGEST_SIDE)
    assert LoadedPicture.read(scans(50, 64)).levels.shape == (64, 64)
    scene = zlib.compress(bytes(10**6))  # a scene, as in the project's own exports
    assert LoadedPicture.read(png(8, 8, bytes(72), chunk(b"zTXt", b"fieldlab\0\0" + scene))).levels.shape == (8, 8)
    assert LoadedPicture.read(photograph(200)).levels.shape == (200, 200)


def test_pillow_receives_only_the_picture():
    about = chunk(b"tEXt", b"k\0v"), chunk(b"iCCP", b"p\0\0x"), chunk(b"acTL", bytes(8))
    found = essential(png(8, 8, bytes(72), *about))
    with found.kind(io.BytesIO(b"".join(found.parts))) as picture:
        picture.load()
        assert picture.info == {}
    data = saved(Image.new("L", (8, 8)), "JPEG", exif=b"Exif\0\0" + exif(6), comment=b"c", icc_profile=bytes(70_000))
    found = essential(data)
    with found.kind(io.BytesIO(b"".join(found.parts))) as picture:
        assert not {"exif", "comment", "icc_profile"} & picture.info.keys()


def test_memory_is_limited_only_in_the_block():
    with pytest.raises(ValueError, match="image must be readable in 64 MiB of memory"), limited_memory("image", 2**26):
        np.ones(2**24)
    np.ones(2**24)


def test_labs_accept_a_loaded_picture_instead_of_a_file():
    data = photograph(64)
    picture = LoadedPicture.read(data)
    there = pickle.loads(pickle.dumps(picture))
    assert there == picture != LoadedPicture.read(photograph(65))
    assert hash(there) == hash(picture)
    labs = [Diffusion(ny=32, nx=32, backend="cpu_numpy") for _ in range(2)]
    for lab, given in zip(labs, (data, there), strict=True):
        lab.load_image(given)
    np.testing.assert_array_equal(*[lab.field() for lab in labs])
    same = [LCurve(problem="blur", n=8, options={"image": given}) for given in (data, there)]
    np.testing.assert_array_equal(*[lab.system.x for lab in same])
    frames = [lab.frame() for lab in same]
    assert frames[0].notes["files"] == frames[1].notes["files"] != ""
    assert frames[0].notes["kept"] == frames[1].notes["kept"] == "64 64 0 0 64 64"
    with pytest.raises((ValueError, TypeError), match="bytes of a PNG or JPEG file, not str"):
        labs[0].load_image("holiday.png")
