"""Fieldlab without a screen: labs, backends, devices and honest timings, for notebooks, scripts and the app."""

from __future__ import annotations

from compute.backends import BACKENDS, BackendUnavailable
from compute.labs import LABS

__all__ = ["BACKENDS", "LABS", "BackendUnavailable"]
