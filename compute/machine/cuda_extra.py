"""The extra that fits this machine's NVIDIA driver: cuda12 or cuda13."""

from __future__ import annotations

from collections.abc import Mapping

CUDA13_DRIVER = 580  # least major version for CUDA 13.0
CUDA12_DRIVER = 525  # least major version for CUDA 12


def cuda_extra(driver: str | None, versions: Mapping[str, str]) -> tuple[str, str]:
    """Return the extra to install, "" for none, and the reason.

    driver: version of the NVIDIA driver, None without one; versions: of the installed distributions by name. An
    installed CuPy, as on Colab, takes precedence if the driver supports it: a CuPy for another CUDA next to it breaks
    both.
    """
    if driver is None:
        return "", "no NVIDIA driver is installed"
    number = driver.partition(".")[0]
    if not number.isdigit():
        return "", f"the driver's version {driver!r} is not a number"
    major = int(number)
    if major < CUDA12_DRIVER:
        return "", f"driver {driver} is older than {CUDA12_DRIVER}, the first for CUDA 12"
    if "cupy-cuda12x" in versions and "cupy-cuda13x" not in versions:
        return "cuda12", f"driver {driver}, and cupy-cuda12x is installed"
    if major < CUDA13_DRIVER:
        return "cuda12", f"driver {driver} is older than {CUDA13_DRIVER}, the first for CUDA 13"
    return "cuda13", f"driver {driver} supports CUDA 13"


def in_words(extra: str, reason: str) -> str:
    """Return the line of `fieldlab info`: the command and the reason."""
    return f"pip install 'fieldlab[{extra}]': {reason}" if extra else f"no extra: {reason}"
