// All about one name: its story, leases, consumers, events.
import { make, time, lasting } from './say.js';

export function showDetail(d, lease) {
  document.getElementById('detail-title').textContent = d.name;
  const body = document.getElementById('detail-body'), opened = new Set([...body.querySelectorAll('details[open]')].map((e) => e.dataset.seq)), top = document.getElementById('detail').scrollTop;
  const facts = make('dl', {});
  const fact = (name, ...what) => facts.append(make('dt', {}, name), make('dd', {}, ...what));
  fact('scope', d.scope);
  fact(d.live ? 'now' : 'then', d.state);
  if (d.kind) fact('kind', d.kind);
  if (d.path) fact('path', (d.vault ? d.vault + '/' : '') + d.path);
  fact(d.live ? 'as of' : 'as it was', time(d.at, true), ' (sequence ' + d.seq + ')');
  const section = (title, id, ...what) => make('section', { 'aria-label': title, id }, make('h3', {}, title), ...what);
  body.replaceChildren(facts,
    d.concerns.length ? section('What is wrong', 'detail-concerns', make('ul', {}, ...d.concerns.map((c) => make('li', { class: 'block' }, c.what, make('br'), '→ ' + c.do)))) : '',
    section('What comes next', 'detail-next', make('ul', {}, ...d.next.map((s) => make('li', {}, s.at ? time(s.at) : null, s.at ? '(' + (s.at > d.at ? 'in ' + lasting(s.at - d.at) : lasting(d.at - s.at) + ' ago') + ') ' : null, s.says)))),
    section('Story', 'detail-story', story(d, lease)),
    section('Leases', 'detail-leases', ...d.leases.slice(0, 60).map((l) => leaseBlock(l, lease, d.at))),
    section('Consumers', 'detail-consumers', ...(d.consumers.length ? d.consumers.map(consumer) : [make('p', { class: 'quiet' }, 'No consumer has registered.')])),
    section('Events', 'detail-events', d.earlier ? make('p', { class: 'quiet' }, d.earlier + ' earlier events: leasesvc events --lease ' + d.name) : '', make('ol', {}, ...d.events.slice(0, 200).map((e) => record(e, opened)))));
  document.getElementById('detail').scrollTop = top;
}

function story(d, lease) {
  const lines = d.story.slice(-200).reverse();
  return make('ol', {}, ...lines.map((l) => make('li', lease && l.lease === lease ? { class: 'block' } : {}, time(l.at, true), l.says,
    l.times > 1 ? ' (' + l.times + ' times, until ' : null, l.times > 1 ? time(l.until) : null, l.times > 1 ? ')' : null,
    l.actor ? make('span', { class: 'quiet' }, ' by ' + l.actor) : null)));
}

function leaseBlock(l, lease, at) {
  const block = make('div', { class: 'block' }, make('b', {}, 'lease ' + l.lease), ': ' + l.state + (l.lease === lease ? ' (chosen)' : ''));
  if (l.public) block.append(make('br'), 'account ', make('code', {}, l.public));
  if (l.id) block.append(make('br'), 'Vault’s lease id ', make('code', {}, l.id));
  if (l.ends) block.append(make('br'), 'ends ', time(l.ends), '(' + (l.ends > at ? 'in ' + lasting(l.ends - at) : lasting(at - l.ends) + ' ago') + ') unless renewed');
  block.append(make('br'), ...l.steps.flatMap((s, i) => [i ? ' → ' : '', s.is + ' ', time(s.at, true)]));
  return block;
}

function consumer(c) {
  const block = make('div', { class: 'block' }, make('b', {}, c.consumer), '/' + c.instance + ', incarnation ' + c.incarnation, make('br'), 'registered ', time(c.since), c.left ? 'left ' : '', c.left ? time(c.left) : '', c.left ? '(' + c.why + ')' : '');
  if (c.waiting) block.append(make('br'), make('span', { class: 'waits' }, 'asked, no answer yet'));
  for (const a of c.answers.slice().reverse()) {
    block.append(make('br'), make('span', { class: a.yes ? 'yes' : 'no' }, (a.yes ? 'yes' : 'no') + ' to lease ' + a.lease + (a.reason ? ': ' + a.reason : '') + ', after ' + lasting(a.took_ms) + ' '), time(a.at));
  }
  return block;
}

function record(e, opened) {
  return make('li', {}, make('details', { 'data-seq': e.seq, open: opened.has(String(e.seq)) },
    make('summary', {}, time(e.at, true), e.type + (e.lease ? ' of lease ' + e.lease : '')),
    make('p', { class: 'quiet' }, e.says + ' (sequence ' + e.seq + ', epoch ' + e.epoch + (e.actor ? ', by ' + e.actor : '') + ')'),
    make('pre', {}, JSON.stringify(e.data, null, 1))));
}
