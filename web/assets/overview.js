// The overview: what needs a person, and the scopes.
import { make, time, lasting } from './say.js';

// keyed replaces the children of an element only where they changed, so that the
// focus stays where it was.
function keyed(list, all, key, build) {
  const have = new Map([...list.children].map((e) => [e.dataset.key, e]));
  let at = null;
  for (const item of all) {
    const k = key(item);
    let e = have.get(k);
    if (e) have.delete(k);
    else { e = build(item); e.dataset.key = k; }
    const next = at ? at.nextSibling : list.firstChild;
    if (e !== next) list.insertBefore(e, next);
    at = e;
  }
  for (const e of have.values()) e.remove();
}

export function showConcerns(o, open) {
  const all = o.concerns.length ? o.concerns.slice() : [{ level: 'good', what: 'Nothing does.', do: '' }];
  if (o.more) all.push({ level: 'warn', what: o.more + ' more are not listed', do: 'order the timeline by trouble' });
  keyed(document.getElementById('concerns'), all, (c) => JSON.stringify(c), (c) => make('li', { class: c.level },
    c.level === 'good' ? null : make('b', {}, c.level === 'high' ? '▲ now' : '● soon'),
    c.name ? make('button', { type: 'button', click: () => open(c.scope, c.name, c.lease) }, c.name) : null,
    c.scope && !c.name ? 'scope ' + c.scope + ': ' : null,
    c.what, c.lease ? ' (lease ' + c.lease + ')' : null, c.since ? ' – since ' : null, c.since ? time(c.since) : null,
    c.do ? make('span', { class: 'do' }, '→ ' + c.do) : null));
}

const how = { fresh: 'the first', own: 'after its own restart', released: 'given back by its predecessor', quiet: 'its predecessor was silent' };
const inUse = ['active', 'candidate', 'handing-over', 'rolling-back', 'requested', 'grace', 'kept', 'retired', 'revoking'];

export function showScopes(o) {
  keyed(document.getElementById('scopes'), o.scopes, (s) => JSON.stringify([s, o.live]), (s) => {
    const list = make('dl', {});
    const row = (name, ...what) => list.append(make('dt', {}, name), make('dd', {}, ...what));
    row('holder', s.epoch ? (s.led ? '' : 'nobody; last: ') + s.holder : 'nobody yet');
    if (s.epoch) row('epoch', s.epoch + (how[s.how] ? ' (' + how[s.how] + ')' : '') + ', since ', time(s.since));
    if (o.live && s.holding) row('heartbeat', lasting(Math.floor(s.holding.age_ms / 1000) * 1000) + ' ago' + (s.holding.host ? ' from ' + s.holding.host : '') + (s.holding.state === 'live' ? '' : ', ' + s.holding.state));
    if (o.live) row('standbys', s.standby && s.standby.length ? s.standby.map((i) => (i.host || i.holder)).join(', ') : 'none');
    if (s.revision) row('definitions', 'revision ' + s.revision);
    row('names', s.names);
    const counts = inUse.filter((k) => s.leases[k]).map((k) => s.leases[k] + ' ' + k);
    row('leases', counts.length ? counts.join(', ') : 'none');
    return make('article', { class: 'card', 'aria-label': 'scope ' + s.scope }, make('h3', {}, s.scope), list);
  });
}
