"""The equations lab on the page: editor, sliders, presets, second picture."""
