// No plot of the page handles presses, so set the threshold in ms to the maximum of setTimeout.
Bokeh.require('core/ui_gestures').UIGestures.press_threshold = 2 ** 31 - 1;
