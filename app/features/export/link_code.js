// The QR code of a link on a card: a click or Enter enlarges it to the whole screen for the audience.
export function render({ model }) {
  const root = make('div', { className: 'link-code' }), large = make('dialog', { className: 'link-code-large', label: 'QR code' });
  const shut = () => large.close();
  // Keep keys from the covered page, whose listeners run first: Escape closes only the code.
  const covered = (event) => { if (large.open) event.stopPropagation(); };
  addEventListener('keydown', covered, true);
  large.addEventListener('click', (event) => { if (event.target === large) shut(); });
  const enlarge = (link, code) => {
    large.replaceChildren(
      make('header', {}, make('h2', { textContent: 'Scan for this state' }),
        make('button', { className: 'small', label: 'Close the QR code', title: 'Close (Escape)', textContent: '✕', click: shut })),
      qrCode(code, `QR code of ${link}`), make('p', { textContent: link.replace(/^https?:\/\//, '') }));
    large.showModal();
  };
  const draw = () => {
    const { link, code, note, words } = model.content;
    if (large.open) shut();
    const said = words || note, found = [];
    if (code) {
      const button = make('button', { label: 'QR code of the link; enlarge it', title: 'Enlarge for the room', click: () => enlarge(link, code) });
      button.append(qrCode(code, `QR code of ${link}`));
      found.push(button);
    }
    if (said) found.push(make('p', { textContent: said, role: 'status' }));
    root.replaceChildren(...found, large);
  };
  model.on('content', draw);
  model.on('remove', () => removeEventListener('keydown', covered, true));
  draw();
  return root;
}
