"""The page on WebGPU: each lab moves to it and back, in a number type that it has."""

from __future__ import annotations

import pytest

from compute.devices.backends import backend
from compute.devices.webgpu import SOFTWARE
from tests.browser.lab_page import LabPage
from tests.browser.serving import serve
from tests.conftest import require

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def lab(tmp_path_factory, lasting):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(SOFTWARE, raising=False)
        require(backend("gpu_wgpu"), patch)
        with serve(tmp_path_factory.mktemp("webgpu")) as server:
            yield LabPage(lasting(), server)
            lasting.close()
    lasting.complain([])


def test_diffusion_goes_on_where_it_was_on_webgpu_and_back(lab) -> None:
    lab.frames_on(3)
    lab.group("Compute")
    for label in ("WebGPU", "Numba"):
        step = lab.step()
        lab.choose("Backend", label)
        lab.until(lambda: "moving" not in lab.status().lower())
        lab.frames_on(3)
        assert lab.step() > step


def test_an_l_curve_in_float64_is_computed_in_float32_on_webgpu(lab) -> None:
    lab.page.get_by_role("tab", name="L-curve").click()
    lab.until(lambda: "Complete" in lab.status())
    lab.group("Compute")
    lab.choose("Backend", "WebGPU")
    kind = lab.page.get_by_role("combobox", name="Number type", exact=True)
    lab.until(lambda: kind.inner_text().strip() == "float32")
    lab.page.get_by_text("WebGPU has no float64").wait_for()
    lab.until(lambda: "Complete" in lab.status())
    assert "Not changed" not in lab.page.locator("body").inner_text()
