// The list of stories or one step of a story with its vote, according to `content` and `vote`, and a ring around the
// target of the step.
const AREAS = {
  picture: 'main', controls: '.MuiDrawer-root.sidebar, .sidebar', readout: '.MuiDrawer-root.contextbar, .contextbar',
  status: '.status', labs: '[role=tablist]',
};

const HEADER = 57, STATUS = 40;               // px, heights of the bars over the page
const CLOSING = 300;                          // ms that the column needs to slide out of the window
const LOW = 480;                              // px; in lower windows the story fills the column, as in stories.css
const MOST_HANDS = 1000;                      // per choice, as in compute/votes.py
const AIR = 6, ABOVE = 12;                    // px between a control and the ring; ABOVE includes the label

// Return the first element of the page that passes the test, or null.
function find(test) {
  for (const node of everyElement()) if (test(node)) return node;
  return null;
}

const box = (node) => node.getBoundingClientRect();
// Whether a node is visible and inside the window; parts of a closed side bar pass checkVisibility.
const seen = (node) => {
  const { left, right, width, height } = box(node);
  return width > 0 && height > 0 && right > 0 && left < innerWidth && node.checkVisibility({ visibilityProperty: true });
};
const labelled = (label) => (node) => seen(node) && !node.closest('.story') &&
  (node.getAttribute('aria-label') == label || !node.children.length && node.textContent.trim() == label);

// Return the control of a label: the nearest ancestor with the height of a control.
function control(node) {
  let around = node;
  while (box(around).height < 32 && (around.parentElement || around.getRootNode().host))
    around = around.parentElement || around.getRootNode().host;
  return around;
}

// Return the element that a step points at. small: whether the readout is hidden, so that the bottom bar shows the result.
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

  const ballot = make('div', { className: 'vote' });
  ballot.setAttribute('aria-live', 'off');    // inside the text, which is read aloud
  const total = make('p', { className: 'total' });
  const hands = [];                         // the fields of the choices
  let counted = '';                         // the vote drawn last, without its number of votes
  const drawVote = () => {
    const { vote } = model, { total: count, hands: raised, ...rest } = vote, { choices, open, counts, question } = rest;
    ballot.hidden = !question;
    total.textContent = count ? `${count} vote${count == 1 ? '' : 's'}` : 'No votes yet';
    const key = JSON.stringify(rest);
    if (key == counted) {
      hands.forEach((field, i) => { if (field !== focused()) field.value = raised?.[i] || ''; });
      return;
    }
    counted = key;
    hands.length = 0;
    if (!question) return ballot.replaceChildren();
    if (open) hands.push(...choices.map((choice, i) => make('input', {
      type: 'number', min: 0, max: MOST_HANDS, step: 1, placeholder: 'hands', value: raised[i] || '', label: `Hands for ${choice}`,
      onchange: ({ target }) => { if (target.reportValidity()) model.send_msg({ hands: [i + 1, Number(target.value)] }); },
    })));
    const rows = choices.map((choice, i) => {
      const row = make('li', {}, make('span', { textContent: choice }));
      if (open) row.append(hands[i]);
      else {
        const share = Math.round(100 * counts[i] / Math.max(count, 1)), bar = make('i');
        bar.style.width = `${share}%`;
        row.append(make('b', { textContent: `${counts[i]} · ${share} %` }), bar);
      }
      return row;
    });
    renew(ballot, make('p', { className: 'question', textContent: question }), make('ul', {}, ...rows),
      make('div', { className: 'close' }, total, make('button', { textContent: open ? 'Close the vote' : 'Vote again',
        title: open ? 'Show the votes (Y)' : 'Without the earlier votes (Y)', click: send({ do: 'vote' }) })));
    readable();
  };

  const step = ({ title, number, of, html, away }) => {
    const text = make('div', { className: 'text', innerHTML: html });   // generated by compute/stories.py, without foreign HTML
    text.setAttribute('aria-live', 'polite');
    text.append(ballot);
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

  let aimed = false;                        // whether the target has been visible in the window
  const follow = () => {
    const { html, area, label } = model.content;
    const small = model.sheet > 0 || innerHeight <= LOW;
    const node = html && (area || label) ? target({ area, label }, small) : null;
    ring.style.display = node ? 'block' : 'none';
    if (!node) return;
    // Lower limit of the ring: the top of the overlays at the bottom. Targets in the bottom bar are not covered.
    const low = area == 'status' || node.closest('.bar') ? innerHeight : model.sheet ? box(section).top : innerHeight - STATUS;
    if (label && !aimed) {                  // may be outside the window, or in a group that is still opening
      aimed = box(node).top >= HEADER && box(node).bottom <= low;
      if (!aimed) node.scrollIntoView({ block: 'center' });
    }
    const { left, top, width, bottom } = box(node);
    const above = area == 'readout' && !small ? box(section).bottom : area == 'labs' ? top : HEADER;       // bottom of the overlay above
    const air = label || node.closest('.bar') ? AIR : 0;
    const from = Math.max(top - (label ? ABOVE : 0), above), to = Math.min(bottom + air, low);
    const side = Math.max(left - air, 0), story = area == 'picture' && !model.sheet ? box(section).left : innerWidth;
    const wide = Math.min(left + width + air, story) - side;
    Object.assign(ring.style, { left: `${side}px`, top: `${from}px`, width: `${wide}px`, height: `${Math.max(0, to - from)}px` });
  };
  let shown = '';                           // the step drawn last
  const draw = () => {
    const content = model.content, key = `${content.title} ${content.number}`;
    section.hidden = !content.stories && !content.html;
    const typed = section.getRootNode().activeElement;      // in the ballot, which moves to the new text
    const read = key == shown ? section.querySelector('.text')?.scrollTop : 0;
    renew(section, ...(content.stories ? list(content) : content.html ? step(content) : []));
    if (read) section.querySelector('.text').scrollTop = read;
    if (ballot.contains(typed)) typed.focus({ preventScroll: true });
    readable();
    if (key != shown) {
      section.scrollIntoView({ block: 'start' });     // the column may have been scrolled
      aimed = false;
    }
    shown = key;
    follow();
    requestAnimationFrame(() => over(!section.hidden));
  };
  // Make overflowing text scrollable by the keyboard.
  const readable = () => {
    const long = section.querySelector('.text, ol');
    if (long?.scrollHeight > long?.clientHeight + 1) long.tabIndex = 0;
    else long?.removeAttribute('tabindex');
  };
  // With a sheet, the column has the sheet's height, and the bottom bar shows the result only for steps about the readout.
  let closing = null;
  const place = () => {
    const { sheet, content } = model, column = section.getRootNode().host?.closest('.contextbar'), root = document.documentElement.style;
    root.setProperty('--statement', sheet && content.area != 'readout' ? 'none' : 'flex');
    clearTimeout(closing);
    if (sheet) {
      root.setProperty('--sheet', `${sheet}px`);
      if (column) column.dataset.sheet = '';
    } else closing = setTimeout(() => delete column?.dataset.sheet, column?.checkVisibility({ visibilityProperty: true }) && section.hidden ? CLOSING : 0);
    section.classList.toggle('sheet', sheet > 0);
    readable();
  };
  const [over, forget] = overPage(section, send({ do: 'close' }), true);     // Escape that ends full screen keeps the story
  const timer = setInterval(() => { if (model.content.html) follow(); }, 500);
  const sizes = new ResizeObserver(() => readable());
  sizes.observe(section);
  model.on('content', () => { draw(); place(); });
  model.on('vote', drawVote);
  model.on('sheet', () => { place(); follow(); });
  model.on('remove', () => { clearInterval(timer); clearTimeout(closing); sizes.disconnect(); ring.remove(); forget(); });
  draw();
  drawVote();
  place();
  return section;
}
