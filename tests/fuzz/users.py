"""A simulated user with random sliders, choices, texts and keys; a comparison of all displayed values."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.load.client import models
from tests.fuzz.messages import TEXTS
from tests.fuzz.visitors import Guest

KEYS = (" ", "s", "r", "h", "l", "ctrl+z", "ctrl+shift+z", "+", "-", "arrowleft", "m", "n", "a", "v", "backspace")
TYPED = ("1", "64", "1e3", "-0.5", "0.25", "200", "1e-3", "nan", "1e400", "٣", *TEXTS)
# Larger grids take seconds per frame on few cores, and add no coverage. All other choices are used.
QUICK = {"Grid [cells]": ("64 × 64", "128 × 128", "256 × 256")}


@dataclass
class User:
    """Uses the page of `guest`; done: actions since the last look_around."""

    guest: Guest
    random: random.Random
    lab: str = ""
    done: list[tuple[str, Any]] = field(default_factory=list)
    widgets: list[Mapping[str, Any]] = field(default_factory=list)

    def look_around(self, document: Any) -> None:
        """Store the widgets of the page."""
        parts = [one.get("attributes", {}) for one in models(document)]
        self.widgets = [one for one in parts if isinstance(one.get("data"), dict) and "attributes" in one["data"]]
        self.done = []

    def open_groups(self) -> None:
        """Open every group of the side bar: closed groups have no widgets in the document."""
        for group in (one for one in self.widgets if "_names" in one["data"]["attributes"]):
            data = group["data"]
            self.guest.set(data["id"], "active", list(range(len(data["attributes"]["_names"]))))

    def act(self, times: int) -> None:
        """Do `times` actions, without waiting for their results."""
        for _ in range(times):
            if self.random.random() < 0.3:
                key = self.random.choice(KEYS)
                self.done.append(("key", key))
                self.guest.press(key)
                continue
            widget = self.random.choice(self.widgets)
            name, data = widget.get("class_name"), widget["data"]
            change = self.change_of(str(name), data["attributes"])
            if change is not None and not data["attributes"].get("disabled"):
                self.done.append((data["attributes"].get("label", name), change[1]))
                self.guest.set(data["id"], *change)

    def change_of(self, name: str, now: Mapping[str, Any]) -> tuple[str, Any] | None:
        """Return a property of a widget and a user's new value; None for an unsupported widget."""
        options, pick = now.get("options", ()), self.random
        found: tuple[str, Any] | None = None
        match name:
            case "Select" if now.get("label") in QUICK:
                found = "value", pick.choice(QUICK[now["label"]])
            case "IntSlider":
                found = "value", pick.randint(now.get("start", 0), now.get("end", 1))
            case "FloatSlider":
                found = "value", pick.uniform(now.get("start", 0.0), now.get("end", 1.0))
            case "DiscreteSlider" if options:
                found = "value", pick.randrange(len(options))
            case "Select" if isinstance(options, list) and options:
                found = "value", pick.choice([one for one in options if one not in now.get("disabled_options", ())])
            case "Select" if isinstance(options, dict) and options:  # in groups, each option with its label
                every = [one for _, group in options["entries"] for one, _ in group]
                found = "value", pick.choice([one for one in every if one not in now.get("disabled_options", ())])
            case "RadioButtonGroup" if options:
                found = "value", pick.choice(options)
            case "Switch":
                found = "value", pick.random() < 0.5
            case "TextInput" | "LiteralInput":
                found = "value", pick.choice(TYPED)
        return found

    def unlike(self, document: Any, state: Mapping[str, Any]) -> str:
        """Return the first difference between a widget of the document and the server's widget; "" if none."""
        shown = {one["id"]: one.get("attributes", {}) for one in models(document)}
        for name, (value, _, its) in state["widgets"].items():
            for there in (shown[model] for model in its if model in shown and "options" not in shown[model]):
                if "value" in there and type(there["value"]) is type(value) and not same(there["value"], value):
                    return f"{name} shows {there['value']}, and is {value}"
        return ""


def disagreement(state: Mapping[str, Any], whole: bool) -> str:
    """Return the first disagreement of widgets, session, engine and (if `whole`) link; "" if none."""
    if state["phase"] not in {"running", "paused"} or state["pending"]:
        return f"it is {state['phase']}, pending {state['pending']}"
    if state["running"] is not (state["phase"] == "running"):
        return f"it says {state['phase']}, and its engine was state to run: {state['running']}"
    for name, value in state["values"].items():
        if not same(state["applied"].get(name, value), value):
            return f"{name} is {value}, and the engine has {state['applied'][name]}"
    for name, (shown, held, _) in state["widgets"].items():
        if type(shown) is type(held) and not same(shown, held):
            return f"{name} shows {shown}, and is {held}"
    if whole and state["link"] is not None:
        for name, value in state["link"].items():
            if name in state["values"] and not same(state["values"][name], value):
                return f"the link says {name} {value}, which is {state['values'][name]}"
    return ""


def same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal; NaN equals itself."""
    return json.dumps(one) == json.dumps(other)
