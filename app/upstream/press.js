// No plot of the page listens to presses: the threshold in ms becomes the longest that setTimeout takes.
Bokeh.require('core/ui_gestures').UIGestures.press_threshold = 2 ** 31 - 1;
