// Audience mode: the card with the room's code in large type and, while the card is closed, a button with the number of
// followers. The link is built here, because only the browser knows the address by which the page was reached.
const WINDOW = 'fieldlab-lecturer', FEATURES = 'popup,width=1000,height=720';

export function render({ model }) {
  const section = make('section', { className: 'audience', label: 'Audience' });
  const chip = make('button', { className: 'audience-chip', click: () => send({ do: 'toggle' }) });
  const send = (message) => model.send_msg(message);
  let opened = model.content.windows ?? 0, blocked = false;
  const shut = () => { blocked = false; if (model.content.open) send({ do: 'toggle' }); else draw(); };
  const [over, forget] = overPage(section, shut);

  const counter = make('p', { className: 'count' });
  counter.setAttribute('role', 'status');
  const follows = (count) => (count == 1 ? '1 follower' : `${count} followers`);

  const room = ({ code, link, local, network, qr, followers }) => {
    const found = [], port = location.port || (location.protocol == 'https:' ? 443 : 80);
    if (qr) found.push(qrCode(qr, `QR code of ${link}`));
    const words = make('div', { className: 'words' });
    if (local) {
      words.append(
        make('p', { className: 'warn', textContent: 'This page was opened as localhost, an address that no phone can reach.' }),
        make('p', { textContent: "Start Fieldlab for the hall's network, and open the page by this computer's address there:" }),
        make('code', { textContent: `fieldlab serve --address 0.0.0.0 --port ${port} --origin ${network || 'ADDRESS'}:${port}` }),
        ...(network ? [] : [make('p', { textContent: "ADDRESS stands for this computer's address in that network." })]),
        make('p', { textContent: 'On this computer alone the room can be tried:' }));
    } else {
      words.append(make('p', { className: 'how', textContent: 'Follow on your phone: scan, or open' }));
    }
    if (link) words.append(make('a', { className: 'link', href: link, target: '_blank', rel: 'noopener', textContent: link.replace(/^https?:\/\//, '') }));
    words.append(make('p', { className: 'code', label: `Code ${code.split('').join(' ')}`, textContent: code }));
    counter.textContent = follows(followers);
    words.append(counter);
    found.push(words);
    return make('div', { className: 'room' }, ...found);
  };

  const tries = (on) => {
    const box = make('input', { type: 'checkbox', checked: on, onchange: (event) => send({ tries: event.target.checked }) });
    return make('label', { className: 'tries' }, box, 'Followers can open this lab for themselves (“Try it yourself”)');
  };

  let said = '';                            // content of the card without the number of followers
  const draw = () => {
    const content = model.content, { followers, ...rest } = content, { open, code, link, problem, window: address } = rest;
    if (code && !link) send({ base: new URL('follow/', location.href).href });
    if ((content.windows ?? 0) > opened) {
      opened = content.windows;
      blocked = window.open(new URL(address, location.href), WINDOW, FEATURES) === null;
    }
    chip.hidden = !code || open;
    section.classList.toggle('asking', !code);
    chip.textContent = code ? `${code} · ${follows(followers)}` : '';
    chip.title = 'The room that follows this page (Q)';
    section.hidden = !open && !blocked;
    requestAnimationFrame(() => over(!section.hidden));
    if (section.hidden) {
      section.replaceChildren();
      said = '';
      return;
    }
    const now = JSON.stringify([rest, blocked]);
    if (now == said) {                                  // keeps a button that is being pressed while a follower joins
      counter.textContent = follows(followers);
      return;
    }
    said = now;
    const head = make('header', {}, make('h2', { textContent: 'Audience' }),
      make('button', { className: 'small', label: 'Close the card', title: 'Close (Q); the room stays open', textContent: '✕',
        click: shut }));
    const body = code ? room(content) : make('p', { textContent: 'Up to some hundred phones see the picture, the values and the ' +
      "story's text, live, and open the same lab for themselves. Nothing of them is kept but how many they are." });
    const act = code ? make('button', { textContent: 'End the room', click: () => send({ do: 'end' }) }) :
      make('button', { className: 'main', textContent: 'Let the room follow', click: () => send({ do: 'begin' }) });
    const second = blocked ? make('a', { className: 'button', href: new URL(address, location.href).href, target: WINDOW,
      textContent: "Open the lecturer's window", click: () => { blocked = false; } }) :
      make('button', { textContent: "Lecturer's window", title: "Notes, the next step and a clock, on the lecturer's own screen (W)",
        click: () => send({ do: 'window' }) });
    renew(section, head, ...(problem ? [make('p', { className: 'bad', textContent: problem })] : []), body,
      ...(code ? [tries(rest.tries)] : []), make('footer', {}, act, second));
  };
  model.on('content', draw);
  model.on('remove', forget);
  draw();
  return make('div', {}, section, chip);
}
