// One gang: verdict, timeline, its pods in the topology, certificate, events.
import { Ago, amounts, html, link, Loaded, Nothing, plural, span, State, Table, usePage } from '../lib.js';

export function Gang({ query, live, now }) {
  const asked = { namespace: query.get('namespace') || '', kind: query.get('kind') || '', name: query.get('name') || '' };
  const state = usePage('gang', asked, live);
  return html`<p><a href="#/gangs">All gangs</a></p>
    <h1>${asked.namespace}/${asked.name} <span class="kind">${asked.kind}</span></h1>
    <${Loaded} state=${state}>${(page) => html`
      <${Summary} why=${page.why} now=${now} />
      <${Verdict} why=${page.why} />
      <${Timeline} page=${page} now=${now} />
      <${Domains} page=${page} />
      <${Certificate} certificate=${page.why.certificate} />
      <${History} why=${page.why} now=${now} />
      <${Pods} page=${page} now=${now} />`}<//>`;
}

function Summary({ why, now }) {
  const gang = why.gang;
  const rows = [
    ['State', html`<${State} state=${gang.state} /> ${gang.since && html`for <${Ago} at=${gang.since} now=${now} />`}`],
    ['Queue', html`<a href=${link('/gangs', { queue: gang.queue })}>${gang.queue || 'default'}</a>${gang.position != null ? `, place ${gang.position}${why.waitingInQueue != null ? ` of ${why.waitingInQueue}` : ''}` : ''}, priority ${gang.priority}`],
    ['Pods', `${plural(gang.pods, 'pod')}, ${gang.podsRunning} running, ${gang.podsWaiting} waiting${gang.minMember ? `; starts with ${gang.minMember}` : ''}`],
    ['Requests', amounts(gang.requests)],
    ['Where', gang.domain || (gang.nodes.length ? plural(gang.nodes.length, 'node') : '')],
  ];
  if (why.expectedStart && gang.state === 'Waiting') {
    const { at, earliest, latest, method } = why.expectedStart;
    rows.push(['Expected start', html`<${Ago} at=${at} now=${now} /> <span class="kind">${at}${earliest && latest ? `, between ${earliest} and ${latest}` : ''}${method ? `, by ${method}` : ''}</span>`]);
  }
  return html`<dl class="facts">${rows.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function Verdict({ why }) {
  const gang = why.gang;
  if (!gang.reason && !gang.message && gang.state !== 'Waiting') return why.notes.length ? html`<section><h2>Notes</h2><ul>${why.notes.map((note) => html`<li>${note}</li>`)}</ul></section>` : null;
  return html`<section aria-labelledby="verdict" class="verdict"><h2 id="verdict">${gang.state === 'Waiting' ? 'Why it waits' : 'Verdict'}</h2>
    <p>${gang.reason && html`<b class=${`reason ${why.category.toLowerCase()}`}>${gang.reason}</b> `}${gang.message || (gang.reason ? '' : 'The scheduler has not written a reason yet; phalanx doctor checks it.')}</p>
    ${why.evidence.length > 0 && html`<h3>Evidence</h3><ul>${why.evidence.map((fact) => html`<li>${fact}</li>`)}</ul>`}
    ${why.help.length > 0 && html`<h3>What would help</h3><ul>${why.help.map((step) => html`<li>${step}</li>`)}</ul>`}
    ${why.notes.length > 0 && html`<h3>Notes</h3><ul>${why.notes.map((note) => html`<li>${note}</li>`)}</ul>`}
  </section>`;
}

function Timeline({ page, now }) {
  const steps = page.timeline;
  if (!steps.length) return null;
  const gang = page.why.gang;
  const ends = ['Finished', 'Failed'].includes(gang.state) ? steps.at(-1).at : Math.max(now / 1000, steps.at(-1).at);
  const begin = steps[0].at;
  const started = steps.find((step) => step.what === 'started');
  const placed = steps.find((step) => step.what === 'first pod placed') || started;
  const parts = [
    ['waiting', 'waited', (placed ? placed.at : ends) - begin],
    ['starting', 'was placed', placed && started ? Math.max(started.at - placed.at, 0) : 0],
    ['running', 'ran', placed ? ends - Math.max(placed.at, started ? started.at : placed.at) : 0],
  ].filter(([, , seconds]) => seconds > 0);
  const whole = parts.reduce((sum, [, , seconds]) => sum + seconds, 0) || 1;
  const text = parts.map(([, verb, seconds]) => `${verb} ${span(seconds)}`).join(', ');
  return html`<section aria-labelledby="timeline"><h2 id="timeline">Timeline</h2>
    <div class="timebar" role="img" aria-label=${text}>${parts.map(([name, , seconds]) => html`<span class=${`part ${name}`} style=${{ flexGrow: seconds / whole }}></span>`)}</div>
    <p class="legend">${parts.map(([name, verb, seconds]) => html`<span class=${`swatch ${name}`}></span> ${verb} ${span(seconds)} `)}</p>
    <ol class="steps">${steps.map((step, place) => html`<li><time datetime=${new Date(step.at * 1000).toISOString()}>${new Date(step.at * 1000).toLocaleString()}</time> ${step.what}${place > 0 ? html` <span class="kind">after ${span(step.at - steps[place - 1].at)}</span>` : ''}</li>`)}</ol></section>`;
}

function Domains({ page }) {
  if (!page.domains.length) return null;
  return html`<section aria-labelledby="where"><h2 id="where">Where it is</h2>
    <p class="legend"><span class="swatch used"></span> with pods of this gang <span class="swatch free"></span> other nodes of the domain</p>
    <div class="domains">${page.domains.map((domain) => html`<section class="domain" aria-label=${domain.path.join(' / ') || 'Nodes'}>
      <h3>${domain.path.map((name, place) => html`${place > 0 ? ' / ' : ''}<span class="kind">${page.levels[place] || ''}</span> ${name}`)}${domain.path.length === 0 ? 'Nodes' : ''}${' '}
        <span class="kind">${plural(domain.pods, 'pod')} on ${plural(domain.nodes.filter((node) => node.pods).length, 'node')} of ${domain.nodes.length}</span></h3>
      <ul class="cells">${domain.nodes.map((node) => html`<li class=${`cell ${node.pods ? 'own' : 'other'} ${node.condition && node.condition !== 'Ready' ? 'faulty' : ''}`}
        title=${node.name}><a href=${link('/topology', { node: node.name })}>${node.name}</a> <span>${node.pods ? plural(node.pods, 'pod') : node.free == null ? '' : `${node.free} free`}${node.condition && node.condition !== 'Ready' ? `, ${node.condition}` : ''}</span></li>`)}</ul></section>`)}</div>
    ${page.moreDomains > 0 && html`<p>and ${plural(page.moreDomains, 'domain')} more</p>`}</section>`;
}

function Certificate({ certificate }) {
  if (!certificate) return null;
  return html`<section aria-labelledby="certificate"><h2 id="certificate">Certificate of the placement</h2>
    <p>${certificate.proven ? 'Proven optimal' : 'Not proven optimal'}${certificate.by ? ` by ${certificate.by}` : ''}. The first term counts most; smaller is better.</p>
    <${Table} hidden caption="Terms of the objective" head=${['Term', '#Value', '#Proven bound']}>
      ${certificate.terms.map((term, place) => html`<tr><th scope="row">${term}</th><td class="amount">${certificate.objective[place] ?? ''}</td><td class="amount">${certificate.bound[place] ?? ''}</td></tr>`)}<//></section>`;
}

function History({ why, now }) {
  return html`<section aria-labelledby="events"><h2 id="events">Events</h2>
    ${why.history.length ? html`<${Table} hidden caption="Events, the newest first" head=${['Ago', 'What', 'Text']}>
      ${why.history.map((moment) => html`<tr><td><${Ago} at=${moment.at} now=${now} /></td><th scope="row">${moment.what}${moment.count > 1 ? ` ×${moment.count}` : ''}</th><td class="text">${moment.text}</td></tr>`)}<//>`
      : html`<${Nothing}>No events, or you may not read them.<//>`}</section>`;
}

function Pods({ page, now }) {
  if (!page.pods.length) return null;
  return html`<section aria-labelledby="pods"><h2 id="pods">Pods</h2>
    <${Table} hidden caption="Pods" head=${['Pod', 'Role', 'Phase', 'Node', 'There for']}>
      ${page.pods.map((pod) => html`<tr key=${pod.name}><th scope="row">${pod.name}</th><td>${pod.role}</td><td>${pod.phase}</td>
        <td>${pod.node && html`<a href=${link('/topology', { node: pod.node })}>${pod.node}</a>`}</td><td><${Ago} at=${pod.since} now=${now} /></td></tr>`)}<//>
    ${page.morePods > 0 && html`<p>and ${plural(page.morePods, 'pod')} more</p>`}</section>`;
}
