// A race over the page: its progress, then the replay, in which each lane follows its recorded times.
const SHORTEST = 3, LONGEST = 12, SLOW = 4;       // s, bounds of a replay; s, the winner's time in slow motion

// Return the number of steps of a lane `seconds` after its start, linearly interpolated between recorded times.
function done(clock, marks, seconds) {
  const next = clock.findIndex((moment) => moment > seconds);
  if (next < 0) return marks[marks.length - 1];
  if (next == 0) return 0;
  const part = (seconds - clock[next - 1]) / (clock[next] - clock[next - 1]);
  return marks[next - 1] + part * (marks[next] - marks[next - 1]);
}

const spaced = (number) => String(Math.floor(number)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
const three = (number) => String(Number(number.toPrecision(3)));

export function render({ model }) {
  const head = make('header'), setup = make('div', { className: 'setup' }), body = make('div', { className: 'body' });
  const refusal = make('p', { className: 'bad' });
  refusal.setAttribute('role', 'alert');
  const section = make('section', { className: 'race', label: 'Race' }, head, setup, refusal, body);
  const send = (message) => () => model.send_msg(message);
  let frame = 0, slow = false;
  // Shrink the pictures by the height of a refusal, so that the card still fits the window.
  const GAP = 12;                                 // px between parts of the card, as in race.css
  const room = new ResizeObserver(() => section.style.setProperty('--refusal', `${refusal.offsetHeight && refusal.offsetHeight + GAP}px`));
  room.observe(refusal);
  const [shown, forget] = overPage(section, send({ do: 'close' }));

  const lane = ({ name, kind, recorded }, pictures) => {
    const picture = make('img', { src: pictures[0], alt: `What ${name} has computed`, draggable: false });
    const badge = make('b', { className: 'badge' }), framed = make('div', { className: 'frame' }, picture, badge);
    picture.onload = () => framed.style.setProperty('--aspect', picture.naturalWidth / picture.naturalHeight);
    const bar = make('i'), count = make('span'), time = make('div', { className: 'time' });
    const detail = make('div', { className: 'detail' });
    const node = make('article', { className: `${kind}${recorded ? ' recorded' : ''}` },
      make('h3', { textContent: name }), make('p', { className: 'tag', textContent: recorded ? 'recorded' : 'this computer' }),
      framed, make('div', { className: 'track' }, bar),
      make('p', { className: 'count' }, count), time, detail);
    return { node, picture, bar, count, badge, time, detail };
  };

  const finish = (parts, { place, time, details }) => {
    parts.badge.textContent = place ? String(place) : '✗';
    parts.badge.className = `badge shown${place == 1 ? ' first' : ''}`;
    parts.time.textContent = time;
    parts.detail.replaceChildren(...details.map((words) => make('p', { textContent: words })));
    markWords(body, model.content.words ?? {});
  };

  const play = ({ lanes, marks, pictures, steps, unit }, all, caption) => {
    cancelAnimationFrame(frame);
    const ends = lanes.map(({ clock }) => clock[clock.length - 1]), longest = Math.max(...ends);
    const total = Math.min(Math.max(longest, SHORTEST), LONGEST);
    const stretch = slow ? SLOW / Math.min(...ends) : total / longest;        // replay seconds for one recorded second
    caption.textContent = Math.abs(stretch - 1) < 0.01 ? 'at true speed' :
      stretch > 1 ? `slowed ${three(stretch)} ×` : `quickened ${three(1 / stretch)} ×`;
    for (const parts of all) {
      parts.badge.className = 'badge';
      parts.time.textContent = '';
      parts.detail.replaceChildren();
    }
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const begun = performance.now(), over = new Set();
    const draw = (now) => {
      const seconds = still ? Infinity : (now - begun) / 1000 / stretch;
      lanes.forEach((one, i) => {
        const at = done(one.clock, marks, seconds), parts = all[i];
        let shown = 0;
        while (shown + 1 < marks.length && marks[shown + 1] <= at) shown += 1;
        if (parts.picture.dataset.shown != shown) {
          parts.picture.dataset.shown = shown;
          parts.picture.src = pictures[shown];
        }
        parts.bar.style.width = `${100 * at / steps}%`;
        parts.count.textContent = `${unit} ${spaced(at)} of ${spaced(steps)}`;
        if (at >= steps && !over.has(i)) {
          over.add(i);
          finish(parts, one);
        }
      });
      if (over.size < lanes.length) frame = requestAnimationFrame(draw);
    };
    frame = requestAnimationFrame(draw);
  };

  // Keep the elements in place while their content is unchanged: a button keeps the focus during the race, and still
  // exists when the mouse button is released.
  let said = '';
  const drawHead = (title, choices) => {
    const now = JSON.stringify([title, choices]);
    if (now == said) return;
    said = now;
    const picked = make('span', { className: 'choices' }, ...choices.map(({ words, message, on }) => {
      const button = make('button', { className: on ? 'on' : '', textContent: words, click: send(message) });
      button.setAttribute('aria-pressed', String(on));
      return button;
    }));
    renew(head, make('h2', { textContent: title }), picked, make('button', {
      className: 'small', label: 'Close the race', title: 'Close (Shift+R, Escape)', textContent: '✕', click: send({ do: 'close' }) }));
  };

  // Choose the lanes and the finish line together, since each change would start another race. The form is reset to the
  // shown race after each answer to a request: a new race or a refusal.
  let offered = '';
  const drawSetup = ({ lanes, fewest, most, finish }, answer) => {
    const now = JSON.stringify([answer, lanes, finish]);
    if (now == offered) return;
    offered = now;
    const boxes = lanes.map(({ key, words, on, recorded }) => {
      const box = make('input', { type: 'checkbox', checked: on, label: words });
      return { key, recorded, box, node: make('label', {}, box, words) };
    });
    const list = finish && make('select', {}, ...finish.options.map(({ value, words, on }) =>
      make('option', { value: String(value), textContent: words, selected: on })));
    const go = make('button', { textContent: 'Race these', click: () => model.send_msg({
      lanes: boxes.filter(({ box }) => box.checked).map(({ key }) => key), finish: list ? Number(list.value) : 0 }) });
    const hint = make('span', { className: 'hint' });
    hint.setAttribute('aria-live', 'polite');
    const check = () => {
      const on = boxes.filter(({ box }) => box.checked);
      const wrong = on.length < fewest || on.length > most ? `${fewest} to ${most} lanes` :
        on.every(({ recorded }) => recorded) ? 'one lane at least of this computer' : '';
      go.disabled = wrong != '';
      hint.textContent = wrong && `Choose ${wrong}`;
    };
    for (const { box } of boxes) box.addEventListener('change', check);
    const group = make('fieldset', {}, make('legend', { textContent: 'Lanes' }), ...boxes.map(({ node }) => node));
    renew(setup, group, ...(finish ? [make('label', {}, finish.label, list)] : []), go, hint);
    check();
  };

  let replayed = '';
  const draw = () => {
    const { title, lanes, waiting, part, doing, failed, choices, setup: can, answer, refused, note, pictures } = model.content;
    section.hidden = !title;
    refusal.hidden = !refused;
    refusal.textContent = refused ?? '';
    const now = lanes ? JSON.stringify([lanes, note]) : '';
    const same = now && now == replayed;                    // the replay continues
    replayed = now;
    if (!same) cancelAnimationFrame(frame);
    if (!title) {
      head.replaceChildren();
      setup.replaceChildren();
      body.replaceChildren();
      said = offered = '';
      shown(false);
      return;
    }
    requestAnimationFrame(() => shown(!section.hidden));    // once the section is attached to the page
    drawHead(title, choices);
    drawSetup(can, answer);
    if (same) return;
    if (!lanes) {
      const words = failed ? `The race cannot be shown: ${failed}` :
        waiting ? waiting : `The lanes take turns, each against its own clock: ${doing}`;
      const status = make('p', { className: failed ? 'bad' : 'waiting', textContent: words });
      status.setAttribute('role', 'status');
      const bar = make('div', { className: 'track wide' }, make('i', { style: `width: ${100 * (part || 0)}%` }));
      body.replaceChildren(status, ...(failed ? [] : [bar]));
      return;
    }
    const all = lanes.map((one) => lane(one, pictures)), caption = make('span', { className: 'caption' });
    const again = make('button', { textContent: 'Replay', click: () => { slow = false; play(model.content, all, caption); } });
    const slower = make('button', { textContent: 'Slow motion', click: () => { slow = true; play(model.content, all, caption); } });
    const row = make('div', { className: 'lanes' }, ...all.map(({ node }) => node));
    row.style.setProperty('--lanes', lanes.length);
    const controls = make('div', { className: 'controls' }, again, slower, caption);
    body.replaceChildren(row, make('footer', {}, controls, make('p', { className: 'note', textContent: note })));
    markWords(body, model.content.words ?? {});
    slow = false;
    play(model.content, all, caption);
  };
  model.on('content', draw);
  model.on('remove', () => { cancelAnimationFrame(frame); room.disconnect(); forget(); });
  draw();
  return section;
}
