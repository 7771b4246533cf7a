// Words: elements from data. Text is only ever set as text.

// make builds an element; what is no node becomes text.
export function make(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k === 'click') e.addEventListener('click', v);
    else e.setAttribute(k, v === true ? '' : String(v));
  }
  for (const c of children) if (c !== null && c !== undefined) e.append(c instanceof Node ? c : document.createTextNode(String(c)));
  return e;
}

const two = (n) => String(n).padStart(2, '0');

// clock gives the time of day, with the day where that is not today's.
export function clock(ms, withMillis) {
  if (!ms) return '–';
  const d = new Date(ms), today = new Date();
  let s = two(d.getHours()) + ':' + two(d.getMinutes()) + ':' + two(d.getSeconds());
  if (withMillis) s += '.' + String(d.getMilliseconds()).padStart(3, '0');
  if (d.toDateString() !== today.toDateString()) s = day(ms) + ' ' + s;
  return s;
}

export function day(ms) {
  const d = new Date(ms);
  return d.getFullYear() + '-' + two(d.getMonth() + 1) + '-' + two(d.getDate());
}

// local gives a time as a datetime-local input has it.
export function local(ms) {
  const d = new Date(ms);
  return day(ms) + 'T' + two(d.getHours()) + ':' + two(d.getMinutes()) + ':' + two(d.getSeconds());
}

// lasting gives a duration in words.
export function lasting(ms) {
  const sign = ms < 0 ? '−' : '';
  ms = Math.abs(ms);
  if (ms < 1000) return sign + Math.round(ms) + ' ms';
  const s = ms / 1000;
  if (s < 100) return sign + (s < 10 ? s.toFixed(1) : Math.round(s)) + ' s';
  if (s < 5400) return sign + Math.round(s / 60) + ' min';
  if (s < 129600) return sign + Math.round(s / 3600) + ' h';
  return sign + Math.round(s / 86400) + ' days';
}

// time gives an element that says a moment, exactly for machines.
export const time = (ms, withMillis) => make('time', { datetime: ms ? new Date(ms).toISOString() : undefined }, clock(ms, withMillis));

export const put = (id, text) => { const e = document.getElementById(id); if (e.textContent !== text) e.textContent = text; };
