// The browser's half of FrameSource (app/tab/stream.py): show each frame and confirm it once it is on the screen.
//
// Public transport: the server sets the data of `source`, and Bokeh redraws the whole plot with axes and colour bar.
// Fast transport: the frame arrives on the page's frame channel (app/tab/frame_channel.py), which also carries the
// confirmation. The data are set without the source's change signal, so that Bokeh does not redraw; hover, ticks and
// callbacks read them from the source. The levels are mapped through a table of the mapper's colours into the glyph's
// canvas, and only the inside of the frame is painted, with the same content and order as in Bokeh.
// The fast transport uses private API of BokehJS. `missing` checks for each name first; if one is absent or fails, only
// the public transport is used: `answer.transport` reports this to the server, and the console logs the reason.

const RAMP = new Uint8Array(256).map((_, level) => level);
const GUIDES = ['guide', 'annotation'], LEVELS = ['image', 'underlay', 'glyph', ...GUIDES];  // levels on the lower canvas
const WHOLE = 1000;  // ms after which a plot is repainted completely
const methods = (object, ...names) => names.map((name) => [name, typeof object?.[name] == 'function']);

// -- the picture

// Return the colour of every level as pixels.
const colours = (mapper) => new Uint32Array(mapper.rgba_mapper.v_compute(RAMP).buffer);

// Make a glyph map its levels through a table, which is rebuilt when the mapper changes. Bokeh draws the first picture
// of each size and creates the canvas.
function use_table(glyph) {
  if (Object.hasOwn(glyph, '_set_data')) return;
  const theirs = Object.getPrototypeOf(glyph);
  let table = null, canvas = null, context = null, picture = null, pixels = null;
  glyph._update_image = function () {
    table = null;
    theirs._update_image.call(this);
  };
  glyph._set_data = function (indices) {
    const levels = this.image.get(0), [height, width] = levels.shape;
    const same = canvas && this.image_data?.[0] == canvas && canvas.width == width && canvas.height == height;
    if (!same || this.data_size != 1 || !(levels instanceof Uint8Array)) {
      theirs._set_data.call(this, indices);
      canvas = this.image_data[0];
      context = canvas.getContext('2d');
      picture = context.createImageData(width, height);
      pixels = new Uint32Array(picture.data.buffer);
      return;
    }
    table ??= colours(this.model.color_mapper);
    for (let i = 0; i < pixels.length; i++) pixels[i] = table[levels[i]];
    context.putImageData(picture, 0, 0);
  };
}

// Whether a view is outside of the frame. Of these views only an axis also draws inside it.
const inPanel = (view) => view.panel != null;
const is_axis = (view) => inPanel(view) && 'tick_coords' in view;

function paint_axis(view, ctx) {
  const {tick_coords} = view;
  view._draw_rule(ctx, null);
  view._draw_major_ticks(ctx, null, tick_coords);
  view._draw_minor_ticks(ctx, null, tick_coords);
}

// Paint a renderer like Bokeh, but without updating the position of its element, which causes a restyle of the page.
function paint_view(view, ctx, box, clipped) {
  if (!view.displayed || !view.is_renderable || inPanel(view) && !is_axis(view)) return;
  ctx.save();
  if (clipped || view.needs_clip) {
    ctx.beginPath();
    ctx.rect(...box.args);
    ctx.clip();
  }
  if (is_axis(view)) {
    paint_axis(view, ctx);
  } else {
    view.update_geometry();
    view.compute_geometry();
    view._paint(ctx);
  }
  ctx.restore();
}

// Paint every pixel that the inside of the frame touches.
function paint_inside(plot) {
  const {ctx, pixel_ratio: ratio} = plot.canvas_view.primary, {bbox} = plot.frame;
  const left = Math.floor((bbox.left + 0.5) * ratio), right = Math.ceil((bbox.right + 0.5) * ratio);
  const top = Math.floor((bbox.top + 0.5) * ratio), bottom = Math.ceil((bbox.bottom + 0.5) * ratio);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, right - left, bottom - top);
  ctx.clip();
  ctx.clearRect(left, top, right - left, bottom - top);
  ctx.scale(ratio, ratio);
  ctx.translate(0.5, 0.5);
  plot._paint_empty(ctx, bbox);
  plot._paint_outline(ctx, bbox);
  for (const level of LEVELS) {
    for (const view of plot.computed_renderer_views) {
      if (view.model.level == level) paint_view(view, ctx, bbox, !GUIDES.includes(level));
    }
  }
  ctx.restore();
}

// -- requirements of the fast transport

const painters = (plot, source) =>
  [...plot.renderer_views.values()].filter((view) => view.model.data_source == source && view.glyph?.image_data);

// Return the first name that the fast transport needs and BokehJS does not have, or "".
function missing(plot, source) {
  const found = plot.renderer_views instanceof Map ? painters(plot, source) : [], primary = plot.canvas_view?.primary;
  const parts = [
    ...methods(source.document, 'get_model_by_id'),
    ...methods(plot, 'repaint', 'invalidate_painters', '_paint_empty', '_paint_outline'),
    ['renderer_views', found.length > 0],
    ['computed_renderer_views', Array.isArray(plot.computed_renderer_views)],
    ['_invalidated_painters', plot._invalidated_painters instanceof Set],
    ['_invalidate_all', typeof plot._invalidate_all == 'boolean'],
    ['_needs_layout', typeof plot._needs_layout == 'boolean'],
    ['frame.bbox', Number.isFinite(plot.frame?.bbox?.right)],
    ['canvas_view.primary', primary?.ctx instanceof CanvasRenderingContext2D && primary.pixel_ratio > 0],
    ...found.flatMap(({glyph}) => [
      ...methods(glyph, 'set_data', '_set_data', '_update_image'),
      ...methods(glyph.image, 'get'),
      ...methods(glyph.model.color_mapper?.rgba_mapper, 'v_compute'),
      ['image_data', glyph.image_data[0] instanceof HTMLCanvasElement],
    ]),
    ...(plot.computed_renderer_views ?? []).flatMap((view) => [
      ...methods(view, 'update_geometry', 'compute_geometry', '_paint'),
      ...is_axis(view) ? methods(view, '_draw_rule', '_draw_major_ticks', '_draw_minor_ticks') : [],
    ]),
  ];
  return parts.find(([, there]) => !there)?.[0] ?? '';
}

function settle(answer, why) {
  answer?.setv({transport: why ? `public: ${why}` : 'fast'});
  if (why) console.info(`Fieldlab: frames take the public way through Bokeh: ${why}`);
}

// -- frames

const ALIGNED = 8, FIRST = 500, MOST = 8000;     // bytes; first and greatest ms between attempts to connect
const utf8 = new TextDecoder();
const filled = (length) => Math.ceil(length / ALIGNED) * ALIGNED;

// Decode the frame in a message; app/tab/frame_channel.py documents the format.
function unpack(bytes) {
  const {ndarray} = Bokeh.require('core/util/ndarray'), length = new DataView(bytes).getUint32(0, true);
  const {source, figures, columns} = JSON.parse(utf8.decode(new Uint8Array(bytes, 4, length)));
  const count = columns.reduce((sum, [, kind]) => sum + (kind == null ? 1 : Array.isArray(kind) ? 0 : kind), 0);
  const floats = new Float64Array(bytes, filled(4 + length), count), data = {};
  let at = 0, byte = floats.byteOffset + floats.byteLength;
  for (const [name, kind] of columns) {
    if (kind == null) {
      data[name] = [floats[at++]];
    } else if (!Array.isArray(kind)) {
      data[name] = [Array.from(floats.subarray(at, at += kind))];
    } else {
      const size = kind.reduce((product, one) => product * one, 1);
      data[name] = [ndarray(bytes.slice(byte, byte + size), {dtype: 'uint8', shape: kind})];
      byte += filled(size);
    }
  }
  return {source, figures, data};
}

// The page's frame channel, a WebSocket that is opened again when it closes. key: identifies the page to the server.
class FrameWire {
  constructor(key) {
    Object.assign(this, {key, receivers: new Map(), socket: null, pause: FIRST});
    this.open();
  }

  open() {
    const address = new URL('frames', document.baseURI);
    address.protocol = address.protocol.replace('http', 'ws');
    address.search = address.hash = '';
    const socket = this.socket = new WebSocket(address);
    this.opened = performance.now();
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => socket.send(`page ${this.key}`);
    socket.onmessage = ({data}) => {
      this.pause = FIRST;
      const {source, ...frame} = unpack(data);
      this.receivers.get(source)?.take(frame);
    };
    socket.onclose = () => {
      if (this.socket != socket) return;
      setTimeout(() => this.socket == socket && this.open(), this.pause * (0.5 + Math.random()));
      this.pause = Math.min(MOST, 2 * this.pause);
    };
  }

  // Reopen the socket: a frame sent through Bokeh shows that the server has no frame channel, so an open one is broken.
  renew() {
    if (this.socket.readyState != WebSocket.OPEN || performance.now() - this.opened < MOST) return;
    this.socket.close();
    this.open();
  }

  // Confirm a frame; return false if the socket is not open.
  confirm(id, number, seconds) {
    if (this.socket.readyState != WebSocket.OPEN) return false;
    this.socket.send(`frame ${id} ${number} ${Math.min(seconds, 999999).toFixed(6)}`);
    return true;
  }
}

// Applies the frames that `wire` receives for the source `id`. Models and views are looked up by id for each frame,
// because they are replaced when a tab is shown again.
class Receiver {
  constructor(document, id, answer, index, wire) {
    Object.assign(this, {document, id, answer, index, wire});
    Object.assign(this, {views: new Map(), whole: new WeakMap(), waiting: null, failed: false, taken: NaN});
    wire.receivers.set(id, this);
  }

  plot(id) {
    let view = this.views.get(id);
    if (!view?.el.isConnected) this.views.set(id, view = this.index.find_one_by_id(id));
    return view;
  }

  take({figures, data}) {
    const source = this.document.get_model_by_id(this.id);
    if (source == null) return;
    const plots = figures.map((id) => this.plot(id));
    const there = plots.every((plot) => plot && painters(plot, source).length);
    const drawn = !there || this.failed;   // by Bokeh; a plot without views reads the source later
    [this.taken] = data.number;
    source.setv({data}, {sync: false, check_eq: false, no_change: !drawn});
    if (drawn) return;
    if (!this.waiting) requestAnimationFrame(() => this.paint());  // runs before the callback of `confirm`
    this.waiting = plots;
    for (const plot of plots) {
      for (const {glyph, all_indices} of painters(plot, source)) {
        use_table(glyph);
        glyph.set_data(source, all_indices).catch((error) => this.fail(error, source, plots));
      }
    }
  }

  paint() {
    const plots = this.waiting;
    this.waiting = null;
    for (const plot of plots.filter(({el}) => el.isConnected)) {
      try {
        if (plot.is_paused || plot.model.hold_render || !plot.is_displayed) plot.request_paint();
        else if (this.is_stale(plot)) plot.repaint();
        else paint_inside(plot);
      } catch (error) {
        this.fail(error, this.document.get_model_by_id(this.id), [plot]);
      }
    }
  }

  // Whether the whole plot must be repainted; at least every WHOLE ms, since changes of styles and fonts cause no signal.
  is_stale(plot) {
    const now = performance.now(), due = now - (this.whole.get(plot) ?? -WHOLE) >= WHOLE;
    const stale = due || plot._invalidate_all || plot._invalidated_painters.size > 0 || plot._needs_layout;
    if (due) plot.invalidate_painters();
    if (stale) this.whole.set(plot, now);
    return stale;
  }

  fail(error, source, plots) {
    if (!this.failed) settle(this.document.get_model_by_id(this.answer), `${error}`);
    this.failed = true;
    for (const {glyph} of plots.flatMap((plot) => painters(plot, source))) {
      delete glyph._set_data;
      delete glyph._update_image;
    }
    source.change.emit();
  }
}

// -- start: the first frame uses the public transport; after it the views exist and can be checked

function begin({source, answer, figures, page}, index) {
  const {document} = source, receivers = document ? document.fieldlab_receivers ??= new Map() : null;
  if (!receivers || receivers.has(source.id)) return;
  const plots = figures.map((id) => index.find_one_by_id(id));
  if (!plots.every((plot) => plot)) return;
  const absent = plots.map((plot) => missing(plot, source)).find((name) => name);
  if (!absent) document.fieldlab_wire ??= new FrameWire(page);
  receivers.set(source.id, absent ? null : new Receiver(document, source.id, answer.id, index, document.fieldlab_wire));
  settle(answer, absent ? `this release of BokehJS has no ${absent}` : '');
}

function confirm(number, {source, answer}) {
  const began = performance.now();
  requestAnimationFrame(() => {            // the frame is painted in this animation frame
    const {port1, port2} = new MessageChannel();
    port1.onmessage = () => {
      const seconds = (performance.now() - began) / 1000;
      if (!source.document?.fieldlab_wire?.confirm(source.id, number, seconds)) answer.value = [number, seconds];
    };
    port2.postMessage(0);                  // delivered after the browser has painted
  });
}

export default (args, origin, _, {index}) => {
  const {source, ticket, figures} = args;
  confirm(origin === ticket ? ticket.value[0] : source.data.number[0], args);
  if (!figures.length) return;
  const receiver = source.document?.fieldlab_receivers?.get(source.id);
  if (receiver && !receiver.failed && origin !== ticket && source.data.number[0] !== receiver.taken) receiver.wire.renew();
  begin(args, index);
};
