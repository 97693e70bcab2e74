"""Fixes of Panel, Bokeh and panel-material-ui, and functions that wrap private names of these libraries and Tornado."""
