// Everything that needs somebody.
import { Ago, GangName, html, link, Loaded, Nothing, State, Table, usePage } from '../lib.js';
import { NodeFaults } from './overview.js';

export function Faults({ live, now }) {
  const state = usePage('faults', {}, live);
  return html`<h1>Faults</h1><${Loaded} state=${state}>${(page) => html`
    <section aria-labelledby="nodes"><h2 id="nodes">Nodes</h2>
      ${page.nodes.length ? html`<${NodeFaults} nodes=${page.nodes} resource=${page.resource} />` : html`<${Nothing}>No node has a fault.<//>`}</section>
    <section aria-labelledby="gangs"><h2 id="gangs">Gangs</h2>
      ${page.gangs.length ? html`<${Table} hidden caption="Gangs that need somebody" head=${['Gang', 'State', 'Queue', 'Since', 'Why']}>
        ${page.gangs.map((gang) => html`<tr key=${gang.namespace + '/' + gang.kind + '/' + gang.name}><th scope="row"><${GangName} gang=${gang} /></th><td><${State} state=${gang.state} /></td>
          <td>${gang.queue}</td><td><${Ago} at=${gang.since} now=${now} /></td><td class="text"><b>${gang.reason}</b> ${gang.message}</td></tr>`)}<//>`
        : html`<${Nothing}>No gang has failed, is being evicted or needs a correction.<//>`}</section>
    <section aria-labelledby="queues"><h2 id="queues">Queues</h2>
      ${page.queues.length ? html`<${Table} hidden caption="Queues with problems" head=${['Queue', 'Problem']}>
        ${page.queues.map((each) => html`<tr><th scope="row"><a href=${link('/queues', { queue: each.queue })}>${each.queue}</a></th><td class="text">${each.problem}</td></tr>`)}<//>`
        : html`<${Nothing}>No queue has a problem.<//>`}</section>`}<//>`;
}
