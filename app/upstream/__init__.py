"""Fixes of Panel, Bokeh and param, the only place that touches private names of these libraries."""
