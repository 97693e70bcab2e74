const PARTS = {
  Axis: 'axes/axis', BaseColorBar: 'annotations/base_color_bar', Grid: 'grids/grid', Legend: 'annotations/legend',
  Title: 'annotations/title',
};
for (const [name, path] of Object.entries(PARTS)) {
  const part = Bokeh.require(`models/${path}`)[name].prototype, { setv } = part;
  part.setv = function (values, options) { setv.call(this, values, { ...options, sync: false }); };
}
