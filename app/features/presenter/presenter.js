// The presenter bar and the overlays of the pictures: frozen canvases, a spotlight, pen strokes.
// Keys and buttons send the same messages to the server, which sets the active tools in the model's properties.

const STATUS = 40;                                      // px, height of the status bar
const STROKE = 5, OUTLINE = 3;                          // px, width of a pen stroke and of its dark outline
const INK = '#3df5ff', EDGE = '#10181f';                // visible on dark, bright and white pictures
const TOOLS = [                                         // key, name, description, SVG path of the icon
  ['z', 'Freeze', 'keep the picture on the screen while the lab continues', 'M12 3v18M4 7.5l16 9M20 7.5l-16 9'],
  ['v', 'Spotlight', 'darken everything except the surroundings of the pointer',
   'M12 8a4 4 0 1 0 .01 0M12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2'],
  ['d', 'Pen', 'draw over the picture', 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3'],
  ['x', 'Wipe', 'erase the drawing', 'M9 20h11M4 14l9-9 6 6-9 9H8zM8.500 9.500l6 6'],
  ['q', 'Audience', 'phones follow this page',
   'M3 3h7v7h-7zM14 3h7v7h-7zM3 14h7v7h-7zM14 14h3v3M21 14v7h-7'],
  ['.', 'Hide', 'hide the bar; the same key shows it again', 'M5 9l7 7 7-7'],
];
const symbol = (lines) => `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${lines}"/></svg>`;

// All visible canvases of the page.
const canvases = () => [...everyElement()].filter((node) => node.tagName == 'CANVAS' && node.checkVisibility());

export function render({ model }) {
  const veil = make('div', { className: 'veil' }), ice = make('div', { className: 'ice' });
  const paper = make('canvas', { className: 'paper' });
  const bar = make('div', { className: 'bar' });
  const whole = make('div', {}, ice, veil, paper, bar);
  const send = (key) => model.send_msg({ key });
  const presenting = () => model.mode == 'presenting';
  const aboveStatus = () => model.mode == 'statement-alone';

  // -- the bar

  const buttons = new Map();
  const button = (key, words, about, host) => {
    const made = make('button', { type: 'button', textContent: words, title: `${about} (${key == ' ' ? 'Space' : key.toUpperCase()})` });
    made.dataset.key = key;
    made.addEventListener('click', () => { made.blur(); send(key); });
    host.append(made);
    buttons.set(key, made);
    return made;
  };
  const acts = make('div', { className: 'acts' }), tools = make('div', { className: 'tools' });
  const chooser = make('select', { title: 'What the slider sets', label: 'What the slider sets' });
  const name = make('span', { className: 'name' }), value = make('output');
  const slider = make('input', { type: 'range' });
  const dial = make('div', { className: 'dial' }, name, chooser, slider, value);
  const headline = make('div', { className: 'said' }), sentence = make('div', { className: 'because' });
  const statement = make('section', { className: 'statement' }, headline, sentence);
  const controls = make('div', { className: 'controls' }, acts, dial, tools);
  const clock = make('time', { className: 'clock', title: 'Time of day, and since presenter mode began' });
  const room = make('span', { className: 'room', title: 'The code of the room, and how many follow' });
  statement.setAttribute('aria-label', 'What was measured');
  controls.setAttribute('role', 'toolbar');
  controls.setAttribute('aria-label', 'Controls of the lab');
  bar.append(statement, controls);
  for (const [key, words, about, lines] of TOOLS) {
    const made = button(key, words, `${words}: ${about}`, tools);
    made.setAttribute('aria-label', words);
    made.innerHTML = symbol(lines);
    if (key == 'q') tools.append(room);
  }
  tools.append(clock);

  let held = false, waiting = false;                    // the slider is being dragged; its position will be sent
  const move = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      model.send_msg({ dial: model.dial, place: Number(slider.value) });
    });
  };
  slider.addEventListener('input', move);
  slider.addEventListener('pointerdown', () => { held = true; });
  for (const end of ['pointerup', 'pointercancel', 'blur']) slider.addEventListener(end, () => { held = false; });
  chooser.addEventListener('change', () => { chooser.blur(); model.send_msg({ choose: Number(chooser.value) }); });

  const drawActs = () => {
    acts.replaceChildren();
    model.acts.forEach(([key, words, about]) => button(key, words, about, acts));
  };
  const drawDials = () => {
    chooser.replaceChildren(...model.dials.map(({ label }, index) => make('option', { value: index, textContent: label })));
    drawDial();
  };
  const drawDial = () => {
    const one = model.dials[model.dial];
    dial.hidden = !one;
    if (!one) return;
    chooser.hidden = model.dials.length < 2;
    name.hidden = !chooser.hidden;
    chooser.value = model.dial;
    name.textContent = one.label;
    slider.setAttribute('aria-label', one.label);
    Object.assign(slider, { min: one.low, max: one.high, step: one.step });
    drawPlace();
  };
  const drawPlace = () => {
    const [place, words] = model.place;
    value.textContent = words;
    slider.setAttribute('aria-valuetext', words);
    if (!held) slider.value = place;
  };
  const drawWords = () => {
    headline.innerHTML = model.headline;
    sentence.innerHTML = model.sentence;
    statement.hidden = !model.headline && !model.sentence;
    hide();
  };

  // -- overlays of the pictures

  let strokes = [], drawing = null;
  const pen = paper.getContext('2d');
  const ratio = () => devicePixelRatio || 1;
  const ink = () => {
    const { width, height } = paper.getBoundingClientRect();
    paper.width = Math.round(width * ratio());
    paper.height = Math.round(height * ratio());
    pen.setTransform(ratio(), 0, 0, ratio(), 0, 0);
    pen.lineCap = pen.lineJoin = 'round';
    for (const [colour, wide] of [[EDGE, STROKE + OUTLINE], [INK, STROKE]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = wide;
      for (const stroke of strokes) {
        pen.beginPath();
        stroke.forEach(([x, y], index) => (index ? pen.lineTo(x * width, y * height) : pen.moveTo(x * width, y * height)));
        if (stroke.length == 1) pen.lineTo(stroke[0][0] * width + 0.1, stroke[0][1] * height);
        pen.stroke();
      }
    }
    paper.dataset.strokes = strokes.length;
  };
  const spot = (event) => {
    const { left, top, width, height } = paper.getBoundingClientRect();
    return [(event.clientX - left) / width, (event.clientY - top) / height];
  };
  paper.addEventListener('pointerdown', (event) => {
    if (event.button) return;
    paper.setPointerCapture(event.pointerId);
    drawing = [spot(event)];
    strokes.push(drawing);
    ink();
  });
  paper.addEventListener('pointermove', (event) => {
    if (!drawing) return;
    drawing.push(...(event.getCoalescedEvents?.() ?? [event]).map(spot));
    ink();
  });
  for (const end of ['pointerup', 'pointercancel']) paper.addEventListener(end, () => { drawing = null; });

  const light = (event) => {
    const { left, top } = veil.getBoundingClientRect();
    veil.style.setProperty('--x', `${event.clientX - left}px`);
    veil.style.setProperty('--y', `${event.clientY - top}px`);
  };
  const freeze = () => {
    ice.replaceChildren();
    if (!model.frozen) return;
    const within = ice.getBoundingClientRect(), opaque = new Set();
    for (const canvas of canvases()) {
      const box = canvas.getBoundingClientRect();
      if (canvas === paper || !box.width || !canvas.width || !canvas.height) continue;
      if (box.right < within.left || box.left > within.right || box.top > within.bottom) continue;
      const copy = make('canvas', { width: canvas.width, height: canvas.height });
      copy.getContext('2d').drawImage(canvas, 0, 0);
      // A plot has a stack of canvases. The copy of the lowest hides the live plot; the others stay transparent.
      const place = [box.left, box.top, box.width, box.height].join();
      copy.classList.toggle('opaque', !opaque.has(place));
      opaque.add(place);
      Object.assign(copy.style, { left: `${box.left - within.left}px`, top: `${box.top - within.top}px`,
                                  width: `${box.width}px`, height: `${box.height}px` });
      ice.append(copy);
    }
  };
  const layers = () => {
    const over = { z: model.frozen, v: model.spotlight, d: model.pen };
    for (const [key, on] of Object.entries(over)) buttons.get(key).setAttribute('aria-pressed', String(on));
    veil.hidden = !presenting() || !model.spotlight;
    paper.classList.toggle('drawn', model.pen);
    bar.classList.toggle('frozen', model.frozen);
  };

  // -- visibility and height

  let began = 0, ticking = null;
  const two = (number) => String(number).padStart(2, '0');
  const tick = () => {
    const now = new Date(), seconds = Math.floor((performance.now() - began) / 1000);
    clock.textContent = `${two(now.getHours())}:${two(now.getMinutes())}  ${Math.floor(seconds / 60)}:${two(seconds % 60)}`;
  };
  let told = null, place = '';
  // For one lab and window size the statement never shrinks; otherwise the plots would jump with the length of its text.
  const keepHeight = () => {
    const now = [innerWidth, innerHeight, model.mode, ...model.dials.map(({ label }) => label)].join();
    if (now != place) statement.style.minHeight = '0';
    place = now;
    const { height } = statement.getBoundingClientRect();
    if (height > parseFloat(statement.style.minHeight)) statement.style.minHeight = `${height}px`;
  };
  const measure = () => {
    keepHeight();
    const height = bar.hidden ? 0 : Math.ceil(bar.getBoundingClientRect().height), root = document.documentElement.style;
    const status = !presenting() && (bar.hidden || aboveStatus());
    whole.style.setProperty('--bar', `${height}px`);
    root.setProperty('--bar-high', `${height && height + STATUS * aboveStatus()}px`);     // bottom offset of cards over the page
    root.setProperty('--chip', status ? 'visible' : 'hidden');                            // app/static/audience.js
    root.setProperty('--status', status ? 'flex' : 'none');
    if (height != told) {
      told = height;
      model.send_msg({ height });
    }
    ink();
  };
  const hide = () => { bar.hidden = model.mode == '' || model.hidden || aboveStatus() && statement.hidden; };
  const show = () => {
    hide();
    bar.className = `bar ${model.mode}`;
    ice.hidden = paper.hidden = !presenting();
    layers();
    measure();
  };
  const present = () => {
    const root = document.documentElement;
    clearInterval(ticking);
    if (presenting()) {
      began = performance.now();
      tick();
      ticking = setInterval(tick, 1000);
      if (!document.fullscreenElement) root.requestFullscreen?.().catch(() => {});   // the browser may reject this
    } else {
      strokes = [];
      if (document.fullscreenElement) document.exitFullscreen?.().catch(() => {});
    }
    show();
  };
  const wipe = () => { strokes = []; ink(); };

  const drawRoom = () => { room.textContent = model.room; };
  // The same message also changes headline and sentence: measure after all properties are applied.
  const otherLab = () => { drawDials(); requestAnimationFrame(measure); };
  const watched = { room: drawRoom, acts: drawActs, dials: otherLab, dial: drawDial, place: drawPlace, headline: drawWords,
                    sentence: drawWords, mode: present, hidden: show, pen: layers,
                    spotlight: layers, wiped: wipe };
  for (const [property, draw] of Object.entries(watched)) model.on(property, draw);
  model.on('frozen', () => { layers(); freeze(); });
  document.addEventListener('pointermove', light, true);
  addEventListener('resize', measure);
  const observer = new ResizeObserver(measure);
  observer.observe(bar);
  model.on('remove', () => {
    document.removeEventListener('pointermove', light, true);
    removeEventListener('resize', measure);
    observer.disconnect();
    clearInterval(ticking);
  });
  drawActs();
  drawDials();
  drawWords();
  drawRoom();
  show();
  return whole;                                         // must be returned: Panel removes nodes appended to `el`
}
