"""The bars and sheets that a window has room for, and what they leave to the picture."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.page.address import FULL
from app.page.layout import SHEET, Layout, bars_with_room, sheet_height
from app.tab.lab_tab import HEADER, PADDING, READOUT, SIDEBAR

WINDOWS = {390: (False, False), 899: (False, False), 900: (True, False), 1179: (True, False), 1180: (True, True)}


@pytest.mark.parametrize(("width", "bars"), WINDOWS.items())
def test_a_window_has_the_bars_that_it_has_room_for(width, bars):
    assert bars_with_room(width) == bars


@pytest.mark.parametrize("window", [(1280, 720), (700, 900), (844, 390), (568, 320)])
def test_a_story_is_next_to_the_picture_if_both_have_room(window):
    assert sheet_height(window, 57, 97) == 0


@pytest.mark.parametrize("window", [(390, 844), (412, 915), (360, 640), (620, 877), (320, 240)])
def test_an_upright_phone_shows_it_in_a_sheet_below_the_picture(window):
    least, most = SHEET
    assert least * window[1] - 1 <= sheet_height(window, 57, 97) <= most * window[1] + 1
    if window == (390, 844):
        assert 844 - 57 - 97 - sheet_height(window, 57, 97) >= 390  # room for a picture as wide as the phone


WIDE = Layout((1280, 720), FULL, False, side_bar=True, column=True, in_column=False, below=40)


def test_the_picture_has_the_room_between_the_bars():
    assert WIDE.room == (1280 - SIDEBAR - READOUT - PADDING, 720 - HEADER - 40 - PADDING)
    closed = replace(WIDE, side_bar=False, column=False, presenting=True, below=97)
    assert closed.room == (1280 - PADDING, 720 - HEADER - 97 - PADDING)
    assert closed.large


def test_open_bars_of_a_phone_overlay_the_picture_and_a_sheet_takes_its_height():
    phone = replace(WIDE, window=(390, 844))
    assert phone.room[0] == 390 - PADDING
    story = replace(phone, in_column=True)
    assert story.room == (390 - PADDING, phone.room[1] - story.sheet)
    assert replace(story, column=False).sheet == 0
    assert not replace(phone, presenting=True).large


def test_a_page_in_a_frame_has_no_header():
    assert replace(WIDE, level="none", side_bar=False, column=False, below=0).room == (1280 - PADDING, 720 - PADDING)
