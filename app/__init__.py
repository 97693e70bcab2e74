"""Fieldlab's web app: all code that depends on Panel, Bokeh or HoloViews. The numerics are in `compute`."""
