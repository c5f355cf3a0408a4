// The first page.
import { Ago, amount, Bar, decimal, GangName, html, link, Loaded, Nothing, plural, short, span, State, Table, usePage } from '../lib.js';
import { QueueRows } from './queues.js';

const ORDER = ['Waiting', 'Starting', 'Degraded', 'Running', 'Releasing', 'Failed', 'Finished'];

function Number({ value, name, href, tone = '' }) {
  return html`<li class=${`number ${tone}`}><a href=${href}><strong>${value}</strong> <span>${name}</span></a></li>`;
}

export function Overview({ live, now }) {
  const state = usePage('overview', {}, live);
  return html`<h1>Overview</h1><${Loaded} state=${state}>${(page) => html`
    <ul class="numbers" aria-label="Gangs by state">
      ${ORDER.filter((name) => page.gangs[name]).map((name) => html`
        <${Number} value=${decimal(page.gangs[name])} name=${name.toLowerCase()} tone=${`state-${name.toLowerCase()}`} href=${link('/gangs', { state: name })} />`)}
      ${Object.keys(page.gangs).length === 0 && html`<li>no gangs</li>`}
    </ul>
    <section aria-labelledby="capacity"><h2 id="capacity">Capacity</h2>
      ${page.total != null && html`<p>${page.used == null ? `${amount(page.resource, page.total)} ${short(page.resource)}`
        : html`${amount(page.resource, page.used)} of ${amount(page.resource, page.total)} ${short(page.resource)} in use${' '}
          <${Bar} parts=${[['used', page.used]]} whole=${page.total} text=${`${Math.round((100 * page.used) / (page.total || 1))} % in use`} />`}</p>`}
      <p>Nodes: ${Object.entries(page.nodes).map(([name, number]) => `${decimal(number)} ${name}`).join(', ') || 'none'}.
        In the last minute ${plural(page.bindsPerMinute, 'bind')} and ${plural(page.startsPerMinute, 'start')} of gangs.</p>
    </section>
    <section aria-labelledby="queues"><h2 id="queues"><a href="#/queues">Queues</a></h2>
      ${page.queues.length ? html`<${QueueRows} caption="Queues at the top of the tree" rows=${page.queues} resource=${page.resource} />` : html`<${Nothing}>No queues.<//>`}
    </section>
    <section aria-labelledby="next"><h2 id="next"><a href=${link('/gangs', { state: 'Waiting' })}>Waiting</a></h2>
      ${page.waiting.length ? html`<${Table} hidden caption="The first waiting gangs" head=${['Gang', 'Queue', '#Place', 'Waits', 'Reason']}>
        ${page.waiting.map((gang) => html`<tr key=${gang.namespace + gang.kind + gang.name}><th scope="row"><${GangName} gang=${gang} /></th><td>${gang.queue}</td>
          <td class="amount">${gang.position ?? ''}</td><td><${Ago} at=${gang.since} now=${now} /></td>
          <td class="text"><b>${gang.reason}</b> ${gang.message}</td></tr>`)}<//>` : html`<${Nothing}>No gang waits.<//>`}
    </section>
    <section aria-labelledby="faults"><h2 id="faults"><a href="#/faults">Nodes with faults</a></h2>
      ${page.faults.length ? html`<${NodeFaults} nodes=${page.faults} resource=${page.resource} />` : html`<${Nothing}>No node has a fault.<//>`}
    </section>
    <section aria-labelledby="last"><h2 id="last"><a href="#/decisions">Last decisions</a></h2>
      <${Events} events=${page.decisions} now=${now} />
    </section>`}<//>`;
}

export function NodeFaults({ nodes, resource }) {
  return html`<${Table} hidden caption="Nodes with faults" head=${['Node', 'Condition', 'Why', `#${short(resource)}`, 'Gangs there', 'Lost by draining']}>
    ${nodes.map((node) => html`<tr key=${node.name}><th scope="row"><a href=${link('/topology', { node: node.name })}>${node.name}</a></th>
      <td><${State} state=${node.condition} /></td>
      <td class="text">${[...node.faults, ...node.avoided].join('; ')}</td>
      <td class="amount">${amount(resource, node.devices)}</td>
      <td>${node.gangs.map((gang, place) => html`${place > 0 ? ', ' : ''}<a href=${link('/gang', { namespace: gang.namespace, kind: gang.kind, name: gang.name })}>${gang.namespace}/${gang.name}</a>`)}</td>
      <td>${node.lostDeviceSeconds ? `${span(node.lostDeviceSeconds)} of devices` : ''}</td></tr>`)}<//>`;
}

export function Events({ events, now }) {
  if (!events.length) return html`<${Nothing}>The scheduler has written no events, or you may not read them.<//>`;
  return html`<${Table} hidden caption="Events of the scheduler, the newest first" head=${['Ago', 'About', 'What', 'Text']}>
    ${events.map(({ about, moment }) => html`<tr><td><${Ago} at=${moment.at} now=${now} /></td><th scope="row">${about}</th>
      <td>${moment.what}${moment.count > 1 ? ` ×${moment.count}` : ''}</td><td class="text">${moment.text}</td></tr>`)}<//>`;
}
