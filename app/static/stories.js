// The list of stories, or a step of one, as `content` says; and a ring round what a step points at.
const AREAS = {
  picture: 'main', controls: '.MuiDrawer-root.sidebar, .sidebar', readout: '.MuiDrawer-root.contextbar, .contextbar',
  status: '.status', labs: '[role=tablist]',
};

const HEADER = 57, STATUS = 40;               // px of the bars over the page
const CLOSING = 300;                          // ms until a column that is closed is out of the window
const LOW = 480;                              // px of height of a window in which the story fills the column, as in stories.css
const AIR = 6, ABOVE = 12;                    // px between a control and the ring round it; above it stands its label

// The first element of the page that the test likes.
function find(test) {
  for (const node of everyElement()) if (test(node)) return node;
  return null;
}

const box = (node) => node.getBoundingClientRect();
// Whether it has a place, and is not in a side bar that is closed, some parts of which say that they can be seen.
const seen = (node) => {
  const { left, right, width, height } = box(node);
  return width > 0 && height > 0 && right > 0 && left < innerWidth && node.checkVisibility({ visibilityProperty: true });
};
const labelled = (label) => (node) => seen(node) && !node.closest('.story') &&
  (node.getAttribute('aria-label') == label || !node.children.length && node.textContent.trim() == label);

// What a control's label belongs to: the smallest thing around it that is as high as a control.
function control(node) {
  let around = node;
  while (box(around).height < 32 && (around.parentElement || around.getRootNode().host))
    around = around.parentElement || around.getRootNode().host;
  return around;
}

// small: whether the story leaves the readout no room, so that the bar at the bottom says what was measured.
function target({ area, label }, small) {
  if (area == 'readout' && small) return find((node) => node.matches('.bar .statement') && seen(node));
  if (area) return find((node) => node.matches(AREAS[area]) && seen(node));
  const found = label ? find(labelled(label)) : null;
  return found && control(found);
}

export function render({ model, el }) {
  const section = make('section', { className: 'story', label: 'Story' });
  const ring = make('div', { className: 'story-ring' });
  ring.setAttribute('aria-hidden', 'true');
  Object.assign(ring.style, {
    position: 'fixed', zIndex: 1260, pointerEvents: 'none', boxSizing: 'border-box', borderRadius: '8px',
    border: '3px solid var(--accent)', display: 'none',
  });
  document.body.append(ring);
  const send = (message) => () => model.send_msg(message);

  const list = ({ stories, problems }) => [
    make('header', {}, make('h2', { textContent: 'Stories' }), close()),
    make('ol', {}, ...stories.map(({ name, title, minutes, lab }) => make('li', {},
      make('button', { click: send({ open: name }) }, make('b', { textContent: title }),
        make('span', { textContent: `${lab} · ${minutes} min` }))))),
    ...problems.map((words) => make('p', { className: 'bad', textContent: words })),
  ];
  const close = () => make('button', { className: 'small', label: 'Close the story', title: 'Close (T)', textContent: '✕',
    click: send({ do: 'close' }) });

  const step = ({ title, number, of, html, away }) => {
    const text = make('div', { className: 'text', innerHTML: html });   // made by compute/stories.py: no HTML of others
    text.setAttribute('aria-live', 'polite');
    const marks = Array.from({ length: of }, (_, i) => make('i', { className: i < number ? 'done' : '' }));
    const progress = make('div', { className: 'progress', label: `Step ${number} of ${of}` }, ...marks);
    progress.setAttribute('role', 'img');
    return [
      make('header', {}, make('button', { className: 'small', label: 'All stories', title: 'All stories', textContent: '☰',
        click: send({ do: 'list' }) }), make('h2', { textContent: title }), close()),
      progress, text,
      make('nav', {},
        make('button', { label: 'Previous step', title: 'Previous step (←)', textContent: '←', disabled: number == 1,
          click: send({ go: -1 }) }),
        make('button', { className: away ? 'away' : '', title: 'As the step says (B)', textContent: 'Back to the step',
          click: send({ do: 'back' }) }),
        make('button', { label: 'Next step', title: 'Next step (→)', textContent: '→', disabled: number == of,
          click: send({ go: 1 }) })),
    ];
  };

  let aimed = false;                        // whether what the step points at has been seen in the window
  const follow = () => {
    const { html, area, label } = model.content;
    const small = model.sheet > 0 || innerHeight <= LOW;
    const node = html && (area || label) ? target({ area, label }, small) : null;
    ring.style.display = node ? 'block' : 'none';
    if (!node) return;
    // what lies over the page at the bottom; the bar there lies over nothing that it holds, and does not scroll
    const low = area == 'status' || node.closest('.bar') ? innerHeight : model.sheet ? box(section).top : innerHeight - STATUS;
    if (label && !aimed) {                  // it may be below the fold, or in a group that is still opening
      aimed = box(node).top >= HEADER && box(node).bottom <= low;
      if (!aimed) node.scrollIntoView({ block: 'center' });
    }
    const { left, top, width, bottom } = box(node);
    const above = area == 'readout' && !small ? box(section).bottom : area == 'labs' ? top : HEADER;       // what lies over it
    const air = label || node.closest('.bar') ? AIR : 0;
    const from = Math.max(top - (label ? ABOVE : 0), above), to = Math.min(bottom + air, low);
    const side = Math.max(left - air, 0), story = area == 'picture' && !model.sheet ? box(section).left : innerWidth;
    const wide = Math.min(left + width + air, story) - side;
    Object.assign(ring.style, { left: `${side}px`, top: `${from}px`, width: `${wide}px`, height: `${Math.max(0, to - from)}px` });
  };
  let shown = '';                           // the step that was drawn last
  const draw = () => {
    const content = model.content, key = `${content.title} ${content.number}`;
    section.hidden = !content.stories && !content.html;
    const read = key == shown ? section.querySelector('.text')?.scrollTop : 0;
    renew(section, ...(content.stories ? list(content) : content.html ? step(content) : []));
    if (read) section.querySelector('.text').scrollTop = read;
    readable();
    if (key != shown) {
      section.scrollIntoView({ block: 'start' });     // the column may have been scrolled
      aimed = false;
    }
    shown = key;
    follow();
    requestAnimationFrame(() => over(!section.hidden));
  };
  // What is longer than its room is scrolled, also by the keyboard.
  const readable = () => {
    const long = section.querySelector('.text, ol');
    if (long?.scrollHeight > long?.clientHeight + 1) long.tabIndex = 0;
    else long?.removeAttribute('tabindex');
  };
  // In a sheet the column is as high as the sheet, and the bar below says what was measured only where a step means it.
  let closing = null;
  const place = () => {
    const { sheet, content } = model, column = section.getRootNode().host?.closest('.contextbar'), root = document.documentElement.style;
    root.setProperty('--statement', sheet && content.area != 'readout' ? 'none' : 'flex');
    clearTimeout(closing);
    if (sheet) {
      root.setProperty('--story-sheet', `${sheet}px`);
      if (column) column.dataset.sheet = '';
    } else closing = setTimeout(() => delete column?.dataset.sheet, column?.checkVisibility({ visibilityProperty: true }) && section.hidden ? CLOSING : 0);
    section.classList.toggle('sheet', sheet > 0);
    readable();
  };
  const [over, forget] = overPage(section, send({ do: 'close' }), true);     // a lecturer who leaves the full screen stays in it
  const timer = setInterval(() => { if (model.content.html) follow(); }, 500);
  const sizes = new ResizeObserver(() => readable());
  sizes.observe(section);
  model.on('content', () => { draw(); place(); });
  model.on('sheet', () => { place(); follow(); });
  model.on('remove', () => { clearInterval(timer); clearTimeout(closing); sizes.disconnect(); ring.remove(); forget(); });
  draw();
  place();
  return section;
}
