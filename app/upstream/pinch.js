const { WheelZoomToolView } = Bokeh.require('models/tools/gestures/wheel_zoom_tool');
const LARGEST_STEP = 1.9, SMALLEST_STEP = 0.55;
WheelZoomToolView.prototype._pinch_start = function () {
  this.lastScale = 1;
  return true;
};
WheelZoomToolView.prototype._pinch = function ({ sx, sy, scale }) {
  const { speed } = this.model, ratio = Math.min(LARGEST_STEP, Math.max(SMALLEST_STEP, scale / (this.lastScale ?? 1)));
  this.lastScale = scale;
  if (speed > 0) this.zoom(sx, sy, (1 - 1 / ratio) / speed);
  return true;
};
