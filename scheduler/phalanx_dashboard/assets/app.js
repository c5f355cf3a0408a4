// The frame around the pages: navigation, connection, colours.
import { html, readRoute, render, useEffect, useLive, useNow, useRef, useState } from './lib.js';
import { Overview } from './pages/overview.js';
import { Queues } from './pages/queues.js';
import { Gangs } from './pages/gangs.js';
import { Gang } from './pages/gang.js';
import { Topology } from './pages/topology.js';
import { Decisions } from './pages/decisions.js';
import { Faults } from './pages/faults.js';

const PAGES = [
  ['/', 'Overview', Overview],
  ['/queues', 'Queues', Queues],
  ['/gangs', 'Gangs', Gangs],
  ['/topology', 'Topology', Topology],
  ['/decisions', 'Decisions', Decisions],
  ['/faults', 'Faults', Faults],
];
const HIDDEN = [['/gang', 'Gang', Gang, '/gangs']];

function useRoute() {
  const [route, setRoute] = useState(readRoute());
  useEffect(() => {
    const changed = () => setRoute(readRoute());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}

// Storage may be forbidden in a browser; then the choice lasts as long as the page.
const stored = { get: () => { try { return localStorage.getItem('theme'); } catch { return null; } },
  set: (value) => { try { localStorage.setItem('theme', value); } catch { /* see above */ } } };

function useTheme() {
  const [theme, setTheme] = useState(stored.get() || 'auto');
  useEffect(() => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    stored.set(theme);
  }, [theme]);
  return [theme, setTheme];
}

// Whether users sign in here, or have a link.
function useSession() {
  const [session, setSession] = useState({ signIn: false });
  useEffect(() => {
    fetch('/api/session').then((answer) => answer.json()).then(setSession, () => {});
  }, []);
  return session;
}

function SignIn() {
  return html`<h1>Sign in</h1>
    <p>Use a token of Kubernetes, for example from <code>kubectl create token NAME</code>. You see what it may list.</p>
    <form class="filters" method="post" action="/sign-in">
      <label>Token <input type="password" name="token" required autocomplete="off" /></label>
      <button type="submit">Sign in</button>
    </form>`;
}

function Connection({ live, signIn }) {
  const text = live.refused ? (signIn ? 'Not signed in' : 'No access: open the link that the command printed')
    : !live.connected ? 'Not connected'
    : live.problem ? `Reading failed: ${live.problem}`
    : live.read ? 'Live' : 'Reading the cluster…';
  const good = live.connected && live.read && !live.problem;
  return html`<p class=${`connection ${good ? 'good' : 'bad'}`} role="status"><span aria-hidden="true" class="dot"></span> ${text}</p>`;
}

function App() {
  const route = useRoute();
  const live = useLive();
  const now = useNow();
  const [theme, setTheme] = useTheme();
  const session = useSession();
  const main = useRef(null);
  const known = [...PAGES, ...HIDDEN].find(([path]) => path === route.path);
  const [path, title, Page, under] = known || ['', 'No such page', null];
  const first = useRef(true);
  useEffect(() => {
    document.title = `${route.query.get('name') || title} · Phalanx`;
    if (first.current) first.current = false;
    else { main.current.focus({ preventScroll: true }); scrollTo(0, 0); }
  }, [path]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the content</a>
    <header>
      <a class="brand" href="#/">Phalanx</a>
      <nav aria-label="Pages"><ul>${PAGES.map(([to, name]) => html`
        <li><a href=${`#${to}`} aria-current=${to === path ? 'page' : to === under ? 'true' : null}>${name}</a></li>`)}</ul></nav>
      <${Connection} live=${live} signIn=${session.signIn} />
      ${session.signIn && live.connected && html`<form method="post" action="/sign-out"><button type="submit">Sign out</button></form>`}
      <label class="theme">Colours <select value=${theme} onChange=${(event) => setTheme(event.currentTarget.value)}>
        <option value="auto">as the system</option><option value="light">light</option><option value="dark">dark</option>
      </select></label>
    </header>
    <main id="main" tabindex="-1" ref=${main}>
      ${session.signIn && live.refused ? html`<${SignIn} />` : Page ? html`<${Page} key=${path} query=${route.query} live=${live} now=${now} />`
        : html`<h1>No such page</h1><p><a href="#/">To the overview</a></p>`}
    </main>`;
}

render(html`<${App} />`, document.body);
