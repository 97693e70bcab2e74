// Mends of the libraries that draw the page. Runs after they are loaded and before anything is drawn.
(() => {
  const on = new Set(JSON.parse(document.getElementById('fixes').textContent));    // names of app/upstream/fixes.py
  const { Document } = Bokeh.require('document/document'), { ClientConnection } = Bokeh.require('client/connection');
  const { LayoutDOMView } = Bokeh.require('models/layouts/layout_dom'), { PlotView } = Bokeh.require('models/plots/plot_canvas');
  const ComponentView = Bokeh.Models.get('panel.models.esm.ReactiveESM').prototype.default_view;
  const Component = Bokeh.Models.get('panel.models.esm.ReactComponent');
  window.fieldlab = {};

  // Bokeh takes a button held for 300 ms without moving for a press, after which a drag is nothing: who hesitates
  // before painting, or whose page is slow, would lose the stroke. No page here knows presses.
  if (on.has('press')) {
    Bokeh.require('core/ui_gestures').UIGestures.press_threshold = 2 ** 31 - 1;
  }

  // Bokeh 3.9 adds up the scales of a pinch, each of which counts from its beginning, and zooms out by steps of its own. Here
  // the picture becomes larger as the fingers move apart, about the point between them.
  if (on.has('pinch')) {
    const { WheelZoomToolView } = Bokeh.require('models/tools/gestures/wheel_zoom_tool');
    WheelZoomToolView.prototype._pinch_start = function () { this.pinched = 1; return true; };
    WheelZoomToolView.prototype._pinch = function ({ sx, sy, scale }) {
      const { speed } = this.model, ratio = Math.min(1.9, Math.max(0.55, scale / (this.pinched ?? 1)));
      this.pinched = scale;
      if (speed > 0) this.zoom(sx, sy, (1 - 1 / ratio) / speed);
      return true;
    };
  }

  // Bokeh 3.9 lets a page's CSS set each property of each line, area and text (--bk-line-color), and asks for the style of
  // the plot's element for each of them, whenever it draws: a tenth of what a page costs to open. No CSS here sets one.
  if (on.has('css_values')) {
    Bokeh.require('core/visuals/visual').VisualProperties.prototype._get_css_value = () => '';
  }

  // Each component links to the styles of its kind: a browser asks for each link by itself, has it a moment after it has
  // drawn the component, and draws and lays it out anew. Their text is in the page (app/panel_workarounds.py), and here it
  // takes the place of the links, from the start.
  if (on.has('inline_stylesheets')) {
    const sheets = JSON.parse(document.getElementById('stylesheets')?.textContent ?? '{}');
    const { ImportedStyleSheet: LinkedSheet, InlineStyleSheet: TextSheet } = Bokeh.require('core/dom');
    const texts = new Map();                     // by address; null if it has to be linked to
    const textAt = (address) => {
      const { href } = new URL(address, document.baseURI), css = sheets[href.match(/static\/extensions\/([^?]*)/)?.[1]];
      return css?.replace(/url\('(\.[^']*)'\)/g, (_, path) => `url('${new URL(path, href)}')`) ?? null;
    };
    const inPlaceOf = (address) => {
      if (!texts.has(address)) texts.set(address, textAt(address));
      const css = texts.get(address);
      return css == null ? null : new TextSheet(css);
    };
    const { ImportedStyleSheet } = Bokeh.require('models/dom/stylesheets'), { underlying } = ImportedStyleSheet.prototype;
    ImportedStyleSheet.prototype.underlying = function () { return inPlaceOf(this.url) ?? underlying.call(this); };
    const { stylesheets } = ComponentView.prototype;
    ComponentView.prototype.stylesheets = function () {
      return stylesheets.call(this).map((sheet) => (sheet instanceof LinkedSheet && inPlaceOf(sheet.el.href)) || sheet);
    };
  }

  // A document begins with a definition of each kind of component that there is, 160, of which a page has some thirty. Each
  // is made when it is needed.
  if (on.has('lazy_definitions')) {
    const { ModelResolver } = Bokeh.require('core/resolvers'), { get: find } = ModelResolver.prototype;
    const { Deserializer } = Bokeh.require('core/serialization/deserializer');
    const definitions = new Map(), making = new Set();
    ModelResolver.prototype.get = function (name) {
      const found = find.call(this, name);
      if (found != null || this.parent == null || making.has(name) || !definitions.has(name)) return found;
      making.add(name);
      try {
        return new Deserializer(this).decode(definitions.get(name));
      } finally {
        making.delete(name);
      }
    };

    const { from_json } = Document;
    Document.from_json = function ({ defs, ...rest }, ...more) {
      for (const one of defs ?? []) definitions.set(one.name, one);
      return from_json.call(this, rest, ...more);
    };
  }

  // Bokeh forgets models that a page no longer has 30 s after the last message that changed something: never, as long as
  // a lab runs. Each change of tab left some hundred behind. Here it is 30 s after the first such message.
  if (on.has('forgotten_models')) {
    const forget = Document.prototype._schedule_recompute_all_models;
    Document.prototype._schedule_recompute_all_models = function () { if (this._recompute_timer == null) forget.call(this); };
  }

  // A connection that breaks within a message leaves the half of it with Bokeh 3.9, which takes the first words of the next
  // connection for the rest, gives up, and closes with a code that no page may use: the page stood still for ever.
  if (on.has('fresh_receiver')) {
    const { Receiver: Messages } = Bokeh.require('protocol/receiver');
    const { connect } = ClientConnection.prototype;
    ClientConnection.prototype.connect = function () {
      this._receiver = new Messages();
      return connect.call(this);
    };
  }

  // A browser whose connection is lost comes back: Bokeh gives up after five tries in half a minute, all browsers of a hall
  // at the same moments. Here it goes on for as long as it takes, a try every 4 to 12 s, each by itself, and at once when
  // the network is there again. A page that is no longer there (app/admission.py), or whose connection is refused
  // by a server that answers otherwise, is loaded anew: its address holds its state.
  // GONE, NO_COOKIE: close codes of app/server/page_ids.py. MOST: attempts after which the pauses stay the same. HALL: ms
  // over which the reloads of many browsers are spread.
  if (on.has('reconnecting')) {
    const GONE = 4410, NO_COOKIE = 4411, MOST = 3, HALL = 3000;
    const COOKIES = 'Fieldlab cannot connect this page with its server, because this browser stores no cookies for this address. Allow cookies, then reload the page.';
    const { _try_reconnect, _reconnect_delay, _on_close } = ClientConnection.prototype;
    const comesBack = (connection) => connection.session?.document.config.reconnect_session;
    const returning = new WeakSet();             // connections that reconnect when the network is available again
    const loadAnew = () => setTimeout(() => location.reload(), HALL * Math.random());
    ClientConnection.prototype._try_reconnect = function (force) {
      if (comesBack(this) && !returning.has(this)) {
        returning.add(this);
        addEventListener('online', () => this._try_reconnect(true));
      }
      _try_reconnect.call(this, force);
      this._reconnection_attempts_left = Math.max(this._reconnection_attempts_left, 5 - MOST);
    };
    ClientConnection.prototype._reconnect_delay = function () {
      return _reconnect_delay.call(this) * (0.5 + Math.random());
    };
    ClientConnection.prototype._on_close = function (event, reject) {
      if (event.code == GONE) {
        reject(new Error('this page is no longer there'));
        loadAnew();
        return;
      }
      if (event.code == NO_COOKIE) {
        reject(new Error(COOKIES));
        const notice = Object.assign(document.createElement('p'), { role: 'alert', textContent: COOKIES });
        notice.style.cssText = 'position: fixed; inset: 0 0 auto; z-index: 10000; margin: 0; padding: 16px 24px; font: 18px/1.5 Roboto, sans-serif; color: #fff; background: #b3261e;';
        document.body.append(notice);
        return;
      }
      _on_close.call(this, event, reject);
      if (comesBack(this) && this.reconnection_attempts >= MOST) {
        const answers = ({ type, status }) => type == 'opaqueredirect' || status < 500;
        fetch(location.href, { method: 'HEAD', cache: 'no-store', redirect: 'manual' }).then((answer) => answers(answer) && loadAnew(), () => {});
      }
    };
  }

  // Material's theme sets the lines and the type of each part of each plot, and a callback of ours puts its type right
  // (app/theme.py). All of that is this browser's own: the server heard of it in some hundred messages, one after the
  // other, whenever a lab was opened, and took it for its own values.
  if (on.has('local_theme')) {
    const PARTS = {
      Axis: 'axes/axis', BaseColorBar: 'annotations/base_color_bar', Grid: 'grids/grid', Legend: 'annotations/legend',
      Title: 'annotations/title',
    };
    for (const [name, path] of Object.entries(PARTS)) {
      const part = Bokeh.require(`models/${path}`)[name].prototype, set = part.setv;
      part.setv = function (values, options) { set.call(this, values, { ...options, sync: false }); };
    }
  }

  // Panel 1.9 keeps a copy of each value of a model in React, listens to the model only a moment after it has drawn it,
  // and writes the copy back after each drawing. On a busy machine what the server says in such a moment is lost, or
  // even taken back: a button stays grey that could be pressed. Here React reads the model itself, as its manual asks
  // for (useSyncExternalStore), and there is no copy. Events and children stay as Panel has them.
  if (on.has('react_state')) {
    const theirs = Component.prototype._render_code;
    const state = /if \(name == "useState"\) \{\s*return \(prop\) => \{/;

    Component.prototype._render_code = function () {
      const code = theirs.call(this);
      if (!state.test(code)) console.error('app/static/bokeh_patches.js does not know this release of Panel: see its useState');
      return code.replace(state, '$& if (fieldlab.plain(target, prop)) return fieldlab.shared(React, target, prop);');
    };

    // Whether `prop` is a value of the model itself, which neither fires like an event nor has views of its own.
    fieldlab.plain = ({ model }, prop) => (
      prop in model.data.attributes && !model.events.includes(prop) && !model.children.includes(prop)
    );

    // [value, set] of the model's property `prop`, as React.useState has it; `set` takes a value or a function of it.
    fieldlab.shared = (React, { model }, prop) => {
      const { data } = model, read = () => data.attributes[prop];
      const listen = React.useCallback((changed) => {
        const { change } = data.property(prop);
        change.connect(changed);
        return () => change.disconnect(changed);
      }, [data]);
      const set = React.useCallback((value) => {
        data.setv({ [prop]: typeof value == 'function' ? value(read()) : value });
      }, [data]);
      return [React.useSyncExternalStore(listen, read), set];
    };
  }

  // Bokeh lays all of a page out anew, its plots too, whenever any part of it has got a size, and Panel once more for each
  // part of a component that it has drawn: a page of components in components did so some seventy times while it was
  // opened, half of all that a browser has to do for it. Here what has changed at the same time is laid out together, once.
  if (on.has('layout_once')) {
    const due = new Map();                       // a view, and whether its styles are new, too
    const outermost = (view) => (view.is_managed ? outermost(view.parent) : view);
    const within = (view, views) => view != null && (views.has(view) || within(view.parent, views));
    const layOut = () => {
      const there = Array.from(due).filter(([view]) => view.el.isConnected);
      due.clear();
      const styled = new Set(there.filter(([, styles]) => styles).map(([view]) => view));
      for (const view of styled) if (!within(view.parent, styled)) view.update_layout();
      const views = new Set(there.map(([view]) => outermost(view)));
      for (const view of views) if (!within(view.parent, views)) view.compute_layout();
    };
    let waiting = null;
    const layOutSoon = (view, styles, delay = 0) => {
      if (!delay || !due.size) {
        clearTimeout(waiting);
        waiting = setTimeout(layOut, delay);
      }
      due.set(view, styles || due.get(view));
    };
    // React draws component after component, a few a frame, and each one's first size had all of the page laid out, for a
    // second after it was opened. But a browser has put it in its place, and plots and their rows hear of their own sizes.
    const DRAWING = 150;                         // ms that sizes of components are collected
    const resized = LayoutDOMView.prototype._after_resize;
    LayoutDOMView.prototype._after_resize = function () {
      if (this.is_layout_root && !this._was_built) resized.call(this);
      else layOutSoon(this, false, this instanceof ComponentView ? DRAWING : 0);
    };
    // What one message says of sizes, of margins and of what is visible: a change of the window, of the tab or of the type
    // has some twenty such values, for each of which the page was laid out.
    let told = 0;                                // messages that are being applied
    const applyPatch = Document.prototype.apply_json_patch;
    Document.prototype.apply_json_patch = function (...patch) {
      told += 1;
      try {
        applyPatch.apply(this, patch);
      } finally {
        told -= 1;
      }
    };
    const drawn = Component.prototype.default_view.prototype;
    for (let views = drawn; views !== Object.getPrototypeOf(LayoutDOMView.prototype); views = Object.getPrototypeOf(views)) {
      if (!Object.hasOwn(views, 'invalidate_layout')) continue;
      const layOutAll = views.invalidate_layout;
      views.invalidate_layout = function () {
        if (told && this._was_built && !this.is_managed) layOutSoon(this, true);
        else layOutAll.call(this);
      };
    }
    drawn._on_mounted = function () {
      layOutSoon(this, true);
      this.mounted = true;
    };
    const drawAgain = drawn.rerender_;
    drawn.rerender_ = function (view) {
      if (!(view instanceof LayoutDOMView)) return drawAgain.call(this, view);
      view.render();
      view.update_layout();
      view.r_after_render();
      layOutSoon(view, false);
    };
  }

  // A plot whose labels need more room asks for that, too, as often as its numbers grow a digit, and before it has a place.
  // What it shares its room with are those in the same rows and columns.
  if (on.has('plot_room')) {
    const makeRoom = PlotView.prototype._invalidate_layout_if_needed;
    PlotView.prototype._invalidate_layout_if_needed = function () {
      if (!this.is_displayed) return;            // it asks again once it is
      this.compute_layout = () => {
        let all = this;
        while (all.parent instanceof LayoutDOMView && all.parent.layout != null) all = all.parent;
        all.measure_layout();
        all.update_bbox();
        all._compute_layout();
        all.after_layout();
      };
      try {
        makeRoom.call(this);
      } finally {
        delete this.compute_layout;
      }
    };
  }

  // Each label of each axis asks for its plot's type size, for which the browser has to bring all styles up to date. It is
  // the same for as long as one script runs.
  if (on.has('type_size')) {
    const { get: typeSize } = Object.getOwnPropertyDescriptor(PlotView.prototype, 'base_font_size');
    const sizes = new Map();
    Object.defineProperty(PlotView.prototype, 'base_font_size', {
      configurable: true,
      get() {
        if (!sizes.size) queueMicrotask(() => sizes.clear());
        if (!sizes.has(this)) sizes.set(this, typeSize.call(this));
        return sizes.get(this);
      },
    });
  }

  // Panel has es-module-shims load every module: it reads through the text of each, 1.4 MB for Material's components, and
  // hands the browser a copy that has to be compiled again with each visit. Browsers load modules by themselves, and
  // this one while the page is still coming (app/page.py asks for it). Who names others by bare words is left to the shim.
  if (on.has('native_modules')) {
    const shim = window.importShim;
    const load = (address) => import(new URL(address, document.baseURI)).catch(() => shim(address));
    window.importShim = Object.assign(load, { addImportMap: (map) => shim.addImportMap(map) });
  }
})();
