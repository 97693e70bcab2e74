// What the pointer does on the picture: it drags, zooms and boxes at once, here; the server hears where that led.
//
// What is looked at is a centre and a height in numbers of an anchor, which the server knows exactly. A frame may bring
// another anchor; the view is then carried over, whatever the pointer does meanwhile. `state.told` is where the server
// looks, `state.seen` and `state.pointer` say what happens here: the newest value, at most once in PACE milliseconds.
const PACE = 40, NOTCH = 100, STEPS = 4, SMALLEST_BOX = 8;
let at = null, serial = 0, drag = null, model = null;

function paced(send) {
  let timer = null, last = -PACE;
  return () => {
    if (timer !== null) return;
    const now = () => { timer = null; last = performance.now(); send(); };
    const rest = last + PACE - performance.now();
    if (rest > 0) timer = setTimeout(now, rest);
    else now();  // before the browser paints, which takes longer than the message
  };
}

let pointed = [];
const report = paced(() => { model.state.seen = [serial, at.anchor, at.x, at.y, at.h]; });
const point = paced(() => { model.state.pointer = pointed; });

function show() {
  const {figure, x_range, y_range} = model;
  const up = at.h / 2, right = up * figure.frame_width / figure.frame_height;
  x_range.setv({start: at.x - right, end: at.x + right});
  y_range.setv({start: at.y - up, end: at.y + up});
}

function adopt([number, anchor, x, y, h]) {
  serial = number;
  at = {anchor, x, y, h};
  drag = null;
  model.box.visible = false;
  show();
}

function reanchor(data) {
  const anchor = data.anchor[0], [from, dx, dy, scale] = data.step[0];
  if (at.anchor === anchor) return;
  if (at.anchor !== from) return adopt(data.look[0]);
  const carry = (place) => {
    Object.assign(place, {x: (place.x - dx) * scale, y: (place.y - dy) * scale, h: place.h * scale});
  };
  carry(at);
  if (drag) carry(drag.from);
  at.anchor = anchor;
  show();
}

function move(x, y, h) {
  Object.assign(at, {x, y, h});
  report();
  show();
}

function zoom(event, factor) {
  move(event.x + (at.x - event.x) / factor, event.y + (at.y - event.y) / factor, at.h / factor);
}

const inside = ({x, y}) => Math.abs(y - at.y) <= at.h / 2 &&
  Math.abs(x - at.x) <= at.h / 2 * model.figure.frame_width / model.figure.frame_height;

const acts = {
  panstart(event) {
    if (!inside(event)) return;
    const boxing = event.modifiers?.shift || model.state.boxing;
    drag = {sx: event.sx, sy: event.sy, x: event.x, y: event.y, boxing, from: {...at}};
  },
  pan(event) {
    if (!drag) return;
    if (drag.boxing) {
      const {x, y} = drag;
      model.box.setv({left: Math.min(x, event.x), right: Math.max(x, event.x),
                      bottom: Math.min(y, event.y), top: Math.max(y, event.y), visible: true});
      return;
    }
    const {grain} = model.state, unit = drag.from.h / model.figure.frame_height;
    const whole = (pixels) => Math.round(pixels / grain) * grain * unit;
    move(drag.from.x - whole(event.sx - drag.sx), drag.from.y + whole(event.sy - drag.sy), at.h);
  },
  panend(event) {
    const was = drag;
    drag = null;
    model.box.visible = false;
    if (!was?.boxing) return;
    const {figure} = model, width = Math.abs(event.x - was.x), height = Math.abs(event.y - was.y);
    if (Math.max(Math.abs(event.sx - was.sx), Math.abs(event.sy - was.sy)) < SMALLEST_BOX) return;
    move((event.x + was.x) / 2, (event.y + was.y) / 2,
         Math.max(height, width * figure.frame_height / figure.frame_width));
  },
  wheel(event) {
    if (!inside(event) || drag) return;
    const notches = event.delta / NOTCH;  // a wheel turns by whole notches, a touchpad by little
    const turns = Math.abs(notches) < 0.5 ? notches : Math.sign(notches) * Math.max(1, Math.round(Math.abs(notches)));
    zoom(event, 2 ** (Math.max(-STEPS, Math.min(STEPS, turns)) / STEPS));
  },
  doubletap(event) {
    if (inside(event)) zoom(event, event.modifiers?.shift ? 0.5 : 2);
  },
  pinchstart(event) {  // right, up: from the centre to the point between the fingers, in px
    const grown = model.figure.frame_height / at.h;
    drag = {from: {...at}, pinch: true, sx: event.sx, sy: event.sy,
            right: (event.x - at.x) * grown, up: (event.y - at.y) * grown};
  },
  pinch(event) {  // what was between the fingers stays there
    if (!drag?.pinch) return;
    const {from, right, up} = drag, h = from.h / event.scale, height = model.figure.frame_height;
    const place = (start, before, now) => start + (before * from.h - now * h) / height;
    move(place(from.x, right, right + event.sx - drag.sx), place(from.y, up, up - event.sy + drag.sy), h);
  },
  pinchend() { drag = null; },
  mousemove(event) {
    if (drag || !inside(event)) return;
    const {figure} = model;
    pointed = [(event.x - at.x) / at.h * figure.frame_height / figure.frame_width + 0.5, (event.y - at.y) / at.h + 0.5]
      .map((part) => Math.min(1, Math.max(0, part)));
    point();
  },
};

export default (args, origin) => {
  model = args;
  if (at === null) adopt(args.state.told);
  if (origin === args.source) reanchor(args.source.data);
  else if (origin === args.state) adopt(args.state.told);
  else if (origin === args.figure) show();
  else acts[origin.event_name]?.(origin);
};
