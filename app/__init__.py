"""Fieldlab's web app: everything that knows about Panel, Bokeh or HoloViews. The science lives in `compute`."""
