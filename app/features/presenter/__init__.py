"""Presenter mode: larger type, and a bar with a lab's result, its main controls and tools over the pictures."""

from app.features.presenter.presenter import Presenter

FEATURE = Presenter
