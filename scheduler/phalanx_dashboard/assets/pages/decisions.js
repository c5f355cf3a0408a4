// Decisions: events, and recorded cycles for `phalanx replay`.
import { Ago, decimal, html, Loaded, Nothing, plural, Table, usePage } from '../lib.js';
import { Events } from './overview.js';

export function Decisions({ live, now }) {
  const state = usePage('decisions', {}, live);
  return html`<h1>Decisions</h1><${Loaded} state=${state}>${(page) => html`
    <section aria-labelledby="cycles"><h2 id="cycles">Cycles</h2>
      ${!page.source && html`<${Nothing}>To see each cycle, run <code>kubectl -n phalanx-system port-forward deploy/phalanx 8081</code> and start the dashboard with <code>--scheduler http://127.0.0.1:8081</code>.<//>`}
      ${page.problem && html`<p class="warning">${page.problem}</p>`}
      ${page.source && !page.problem && page.cycles.length === 0 && html`<${Nothing}>No cycle has been fetched yet.<//>`}
      ${page.cycles.map((cycle) => html`<${Cycle} key=${`${cycle.cycle}/${cycle.at}`} cycle=${cycle} now=${now} />`)}
    </section>
    <section aria-labelledby="events"><h2 id="events">Events</h2>
      <${Events} events=${page.events} now=${now} />
      ${page.moreEvents > 0 && html`<p>and ${plural(page.moreEvents, 'older event')}</p>`}</section>`}<//>`;
}

function Cycle({ cycle, now }) {
  const counts = [`${plural(cycle.tried, 'gang')} tried`, `${cycle.placed} placed`, plural(cycle.pods, 'pod'), plural(cycle.evictions, 'eviction'), `${cycle.waiting} wait`];
  return html`<details class="cycle"><summary>Cycle ${cycle.cycle}, <${Ago} at=${cycle.at / 1000} now=${now} /> ago: ${counts.join(', ')}</summary>
    <p><a href=${`/api/recording?cycle=${cycle.cycle}`} download>Download cycle ${cycle.cycle} for phalanx replay</a> (${decimal(Math.ceil(cycle.bytes / 1024))} KiB, phalanx ${cycle.version})</p>
    ${cycle.errors.map((error) => html`<p class="warning">${error}</p>`)}
    ${cycle.lines.length > 0 && html`<${Table} hidden caption=${`Decisions of cycle ${cycle.cycle}`} head=${['What', 'About', 'Why']}>
      ${cycle.lines.map((line) => html`<tr><td>${line.kind}</td><th scope="row">${line.about}</th><td class="text">${line.text}</td></tr>`)}<//>`}
    ${cycle.moreLines > 0 && html`<p>and ${plural(cycle.moreLines, 'decision')} more in the file</p>`}</details>`;
}
