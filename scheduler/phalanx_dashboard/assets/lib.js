// What all pages share: rendering, routes, fetching, the live stream, texts of amounts and times.
import { h, render, Fragment } from './vendor/preact.mjs';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from './vendor/hooks.mjs';
import htm from './vendor/htm.mjs';

export const html = htm.bind(h);
export { Fragment, render, useEffect, useLayoutEffect, useMemo, useRef, useState };

// ---- routes: #/gangs?state=Waiting ---------------------------------------------------------------------------

export function readRoute() {
  const [path, query] = (location.hash.slice(1) || '/').split('?');
  return { path: path || '/', query: new URLSearchParams(query || '') };
}

export function link(path, query = {}) {
  const entries = Object.entries(query).filter(([, value]) => value !== '' && value != null);
  return `#${path}` + (entries.length ? `?${new URLSearchParams(entries)}` : '');
}

export function gangLink(gang) {
  return link('/gang', { namespace: gang.namespace, kind: gang.kind, name: gang.name });
}

// Change the query of this page. The browser's Back returns to the page before, not to each letter of a search.
export function changeQuery(changes) {
  const { path, query } = readRoute();
  for (const [name, value] of Object.entries(changes)) {
    if (value === '' || value == null) query.delete(name);
    else query.set(name, value);
  }
  history.replaceState(null, '', link(path, Object.fromEntries(query)));
  dispatchEvent(new HashChangeEvent('hashchange'));
}

// ---- data ----------------------------------------------------------------------------------------------------

// The data of a page. It is fetched again for every reading; the server answers 304 if nothing has changed.
export function usePage(name, query, live) {
  const url = `/api/${name}?${new URLSearchParams(query)}`;
  const [state, setState] = useState({ url: '', data: null, error: '' });
  const tag = useRef('');
  useEffect(() => {
    const ending = new AbortController();
    const known = state.url === url ? tag.current : '';
    fetch(url, { headers: known ? { 'If-None-Match': known } : {}, cache: 'no-store', signal: ending.signal })
      .then(async (answer) => {
        if (answer.status === 304) return;
        if (!answer.ok) {
          const error = { status: answer.status, text: (await answer.text()).trim() };
          setState((before) => ({ url, data: before.url === url ? before.data : null, error }));
          return;
        }
        const data = await answer.json();
        tag.current = answer.headers.get('ETag') || '';
        setState({ url, data, error: null });
      })
      .catch((error) => {
        if (error.name === 'AbortError') return;
        const text = 'the dashboard does not answer';
        setState((before) => ({ url, data: before.url === url ? before.data : null, error: { status: 0, text } }));
      });
    return () => ending.abort();
  }, [url, live.number, live.connected]);
  return state.url === url ? state : { url, data: null, error: null };
}

// The stream of events. It says when there is a new reading, and why one failed.
export function useLive() {
  const [live, setLive] = useState({ number: -1, read: false, problem: '', connected: false, refused: false });
  useEffect(() => {
    let stream;
    let again;
    const open = () => {
      stream = new EventSource('/api/live');
      stream.onmessage = (event) => setLive({ ...JSON.parse(event.data), connected: true, refused: false });
      stream.onerror = () => {
        const closed = stream.readyState === EventSource.CLOSED; // refused: the browser does not try again
        setLive((before) => ({ ...before, connected: false, refused: closed }));
        if (closed) again = setTimeout(open, 5000);
      };
    };
    open();
    return () => { stream.close(); clearTimeout(again); };
  }, []);
  return live;
}

// The time, for ages that grow.
export function useNow(period = 5000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), period);
    return () => clearInterval(timer);
  }, [period]);
  return now;
}

// ---- texts ---------------------------------------------------------------------------------------------------

// Number.toLocaleString makes a formatter each time, which for 10,000 nodes takes seconds.
const format = new Intl.NumberFormat('en-US');
export const decimal = (number) => format.format(number);

const UNITS = [['Ti', 2 ** 40], ['Gi', 2 ** 30], ['Mi', 2 ** 20], ['Ki', 2 ** 10]];

export function amount(resource, number) {
  if (number == null) return '';
  if (resource === 'cpu') return String(number / 1000);
  if (resource === 'memory' || resource === 'ephemeral-storage') {
    for (const [unit, size] of UNITS) {
      if (Math.abs(number) >= size) return `${Number((number / size).toPrecision(4))}${unit}`;
    }
  }
  return decimal(number);
}

export function amounts(resources) {
  return Object.entries(resources || {})
    .filter(([name, number]) => number && name !== 'pods')
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, number]) => `${name} ${amount(name, number)}`)
    .join(', ');
}

export const short = (resource) => resource.split('/').pop().toUpperCase();

export function span(seconds) {
  const s = Math.max(Math.round(seconds), 0);
  if (s < 120) return `${s}s`;
  if (s < 7200) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h${String(Math.floor((s % 3600) / 60)).padStart(2, '0')}m`;
  return `${Math.floor(s / 86400)}d${Math.floor((s % 86400) / 3600)}h`;
}

export const plural = (number, noun) => `${decimal(number)} ${noun}${number === 1 ? '' : 's'}`;

// `at`: a time of the API, or seconds since the epoch.
export function Ago({ at, now }) {
  if (!at) return null;
  const ms = typeof at === 'number' ? at * 1000 : Date.parse(at);
  if (Number.isNaN(ms)) return html`<span>${String(at)}</span>`;
  const iso = new Date(ms).toISOString();
  const ahead = ms > now + 1000;
  return html`<time datetime=${iso} title=${iso}>${ahead ? `in ${span((ms - now) / 1000)}` : span((now - ms) / 1000)}</time>`;
}

// ---- pieces --------------------------------------------------------------------------------------------------

export function State({ state }) {
  return html`<span class=${`state state-${state.toLowerCase()}`}>${state}</span>`;
}

export function GangName({ gang }) {
  return html`<a href=${gangLink(gang)}>${gang.namespace}/${gang.name}</a> <span class="kind">${gang.kind}</span>`;
}

// A name in `head` that starts with # is above numbers. The table scrolls by itself on a narrow screen, so that the page
// does not.
export function Table({ caption, head, children, hidden = false }) {
  return html`
    <div class="scroll" role="group" aria-label=${caption} tabindex="0">
      <table>
        <caption class=${hidden ? 'visually-hidden' : ''}>${caption}</caption>
        <thead><tr>${head.map((name) => (typeof name !== 'string' ? name : name.startsWith('#') ? html`<th scope="col" class="amount">${name.slice(1)}</th>` : html`<th scope="col">${name}</th>`))}</tr></thead>
        <tbody>${children}</tbody>
      </table>
    </div>`;
}

// `parts`: [class, number] from left to right; `text` says the same in words.
export function Bar({ parts, whole, mark, text }) {
  const width = (number) => `${whole > 0 ? Math.min((100 * number) / whole, 100) : 0}%`;
  return html`
    <span class="bar" role="img" aria-label=${text} title=${text}>
      ${parts.map(([name, number]) => number > 0 && html`<span class=${`part ${name}`} style=${{ width: width(number) }}></span>`)}
      ${mark != null && whole > 0 && html`<span class="mark" style=${{ left: width(mark) }}></span>`}
    </span>`;
}

export function Nothing({ children }) {
  return html`<p class="nothing">${children}</p>`;
}

// The page, or why there is none yet.
export function Loaded({ state, children }) {
  if (state.data) {
    return html`
      ${state.error && state.error.status !== 503 && html`<p class="warning" role="status">Not up to date: ${state.error.text}</p>`}
      ${state.data.notes.length > 0 && html`<ul class="notes" aria-label="What is left out">
        ${state.data.notes.map((note) => html`<li>${note}</li>`)}</ul>`}
      ${children(state.data.page)}`;
  }
  if (!state.error) return html`<p class="nothing" role="status">Loading…</p>`;
  if (state.error.status === 503) return html`<p class="nothing" role="status">Waiting for the first reading: ${state.error.text}</p>`;
  return html`<p class="warning" role="alert">${state.error.text}</p>`;
}
