// The lecturer's second window: notes of the step, the next step, a clock, the picture, and remote-control buttons.
import { definitions, heading, histogram, paragraphs, socketAddress, text, view, votes } from './viewer.js';

const PARTS = ['lab', 'followers', 'clock', 'said', 'step', 'next', 'picture', 'headline', 'values', 'previous', 'forward', 'poll', 'freeze'];
const parts = Object.fromEntries(PARTS.map((id) => [id, document.getElementById(id)]));
const NO_STORY = [['h', 'No story is told'], ['p', 'Press T on the page and choose one: its steps and notes stand here.']];

const say = (words) => { parts.said.textContent = words; parts.said.hidden = !words; };

const shown = ({ lab, phase, headline, values, facts, story, vote, votes: counts, next, notes, followers, code, frozen, presenting, away }) => {
  parts.lab.textContent = `${lab} · ${phase}`;
  parts.followers.textContent = code ? `${code}: ${followers == 1 ? '1 follower' : `${followers} followers`}` : '';
  parts.headline.textContent = headline ?? '';
  parts.step.replaceChildren(
    ...(story ? [heading(story)] : []),
    ...(vote ? [text('h4', vote.question), histogram(vote.choices, counts),
      text('p', `${votes(counts.reduce((a, b) => a + b, 0))}, ${vote.open ? 'still open' : 'closed'}`, 'step')] : []),
    ...(notes?.length ? [...paragraphs(notes), text('h4', 'The room reads')] : vote ? [text('h4', 'The room reads')] : []),
    ...paragraphs(story?.text ?? NO_STORY));
  parts.next.replaceChildren(...(story ? [text('p', next ? `Next: ${next.number} of ${next.of}` : 'This is the last step', 'step'), ...paragraphs(next?.text ?? [])] : []));
  parts.next.hidden = !story;
  parts.values.replaceChildren(...definitions([...(values ?? []), ...(facts ?? [])]));
  parts.previous.disabled = !story || story.number == 1;
  parts.forward.disabled = !next;
  parts.poll.hidden = !vote;
  parts.poll.textContent = vote?.open ? 'Close the vote' : 'Vote again';
  parts.freeze.disabled = !presenting;
  parts.freeze.textContent = presenting ? 'Freeze' : 'Freeze (in presenter mode)';
  parts.freeze.setAttribute('aria-pressed', String(Boolean(frozen)));
  say(away ? 'The page has lost its connection.' : '');
};

const connection = view(socketAddress(), parts.picture, {
  shown,
  told: ({ words, lost }) => {
    document.body.classList.toggle('lost', lost);
    if (words) say(words);
  },
});

const acts = { previous: 'previous', forward: 'next', poll: 'vote', freeze: 'freeze' };
for (const [button, act] of Object.entries(acts)) parts[button].addEventListener('click', () => connection.send(`do ${act}`));
const KEYS = { ArrowLeft: 'previous', PageUp: 'previous', ArrowRight: 'forward', PageDown: 'forward', y: 'poll', Y: 'poll', z: 'freeze', Z: 'freeze' };
addEventListener('keydown', (event) => {
  const button = KEYS[event.key];
  if (!button || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  parts[button].click();
});

const began = performance.now(), two = (number) => String(number).padStart(2, '0');
const tick = () => {
  const now = new Date(), seconds = Math.floor((performance.now() - began) / 1000);
  parts.clock.textContent = `${two(now.getHours())}:${two(now.getMinutes())}  ${Math.floor(seconds / 60)}:${two(seconds % 60)}`;
};
setInterval(tick, 1000);
tick();
connection.start();
