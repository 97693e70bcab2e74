// Collect the views with changed size or styles, and lay them out once after the current script.
const { LayoutDOMView } = Bokeh.require('models/layouts/layout_dom'), { Document } = Bokeh.require('document/document');
const ComponentView = Bokeh.Models.get('panel.models.esm.ReactiveESM').prototype.default_view;
const ReactView = Bokeh.Models.get('panel.models.esm.ReactComponent').prototype.default_view.prototype;
const DRAWING = 150;                           // ms during which sizes of React components are collected
const due = new Map();                         // view -> whether its styles have changed, too
let timer = null, patching = 0;                // patching: number of messages being applied

const outermost = (view) => (view.is_managed ? outermost(view.parent) : view);
const isWithin = (view, views) => view != null && (views.has(view) || isWithin(view.parent, views));

function layOut() {
  const there = Array.from(due).filter(([view]) => view.el.isConnected);
  due.clear();
  const styled = new Set(there.filter(([, styles]) => styles).map(([view]) => view));
  for (const view of styled) if (!isWithin(view.parent, styled)) view.update_layout();
  const views = new Set(there.map(([view]) => outermost(view)));
  for (const view of views) if (!isWithin(view.parent, views)) view.compute_layout();
}

function layOutSoon(view, styles, delay = 0) {
  if (!delay || !due.size) {
    clearTimeout(timer);
    timer = setTimeout(layOut, delay);
  }
  due.set(view, styles || due.get(view));
}

// Without this, the first size of each React component triggers a layout of the whole page, for 1 s after it opens.
const { _after_resize } = LayoutDOMView.prototype;
LayoutDOMView.prototype._after_resize = function () {
  if (this.is_layout_root && !this._was_built) _after_resize.call(this);
  else layOutSoon(this, false, this instanceof ComponentView ? DRAWING : 0);
};

// One message contains some 20 sizes, margins and visibilities; without this, each invalidates the layout.
const { apply_json_patch } = Document.prototype;
Document.prototype.apply_json_patch = function (...patch) {
  patching += 1;
  try {
    apply_json_patch.apply(this, patch);
  } finally {
    patching -= 1;
  }
};
for (let views = ReactView; views !== Object.getPrototypeOf(LayoutDOMView.prototype); views = Object.getPrototypeOf(views)) {
  if (!Object.hasOwn(views, 'invalidate_layout')) continue;
  const { invalidate_layout } = views;
  views.invalidate_layout = function () {
    if (patching && this._was_built && !this.is_managed) layOutSoon(this, true);
    else invalidate_layout.call(this);
  };
}

ReactView._on_mounted = function () {
  layOutSoon(this, true);
  this.mounted = true;
};
const { rerender_ } = ReactView;
ReactView.rerender_ = function (view) {
  if (!(view instanceof LayoutDOMView)) return rerender_.call(this, view);
  view.render();
  view.update_layout();
  view.r_after_render();
  layOutSoon(view, false);
};
