// The map: domains with their nodes. So that 10,000 nodes open quickly and scroll smoothly, the first domains are made at
// once and the others while the browser is idle, the browser renders only what is on the screen (content-visibility),
// and a new reading changes only the domains that differ.
import { amount, amounts, Bar, changeQuery, html, link, Loaded, Nothing, plural, short, span, State, Table, useEffect, useMemo, usePage, useRef, useState } from '../lib.js';

export function Topology({ query, live }) {
  const asked = {};
  for (const name of ['topology', 'resource']) if (query.get(name)) asked[name] = query.get(name);
  const state = usePage('topology', asked, live);
  const node = query.get('node') || '';
  return html`<h1>Topology</h1>
    ${node && html`<${NodePanel} key=${node} name=${node} live=${live} />`}
    <${Loaded} state=${state}>${(page) => page.leftOut ? html`<${Nothing}>${page.leftOut}<//>` : html`
      <form class="filters" onSubmit=${(event) => event.preventDefault()}>
        ${page.topologies.length > 1 && html`<label>Topology <select value=${page.topology} onChange=${(event) => changeQuery({ topology: event.currentTarget.value })}>
          ${page.topologies.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>`}
        <label>Resource <select value=${page.resource} onChange=${(event) => changeQuery({ resource: event.currentTarget.value })}>
          ${page.resources.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      </form>
      <${Map} page=${page} chosen=${node} />`}<//>`;
}

const AT_ONCE = 24; // domains: more than a screen shows
const EACH_TIME = 32;

// How many domains are made. The others follow while the browser is idle.
function useGrowing(all) {
  const [made, setMade] = useState(AT_ONCE);
  useEffect(() => {
    if (made >= all) return undefined;
    const more = () => setMade(made + EACH_TIME);
    if (!window.requestIdleCallback) { // Safari
      const timer = setTimeout(more, 20);
      return () => clearTimeout(timer);
    }
    const waiting = requestIdleCallback(more, { timeout: 200 });
    return () => cancelIdleCallback(waiting);
  }, [made, all]);
  return made;
}

function Map({ page, chosen }) {
  const place = useRef(null);
  const made = useGrowing(page.domains.length);
  const domains = page.domains.slice(0, made);
  const stop = tabStop(domains, chosen);
  if (!page.domains.length || page.domains[0].nodeCount === 0) return html`<${Nothing}>No node has ${page.resource}.<//>`;
  return html`
    <p class="legend">A number is what is free on a node. <span class="swatch free"></span> all free <span class="swatch partly"></span> in part
      <span class="swatch full"></span> none <span class="swatch faulty"></span> takes no pods. Arrow keys move from node to node, Enter shows one.</p>
    <div class="map" ref=${place} onKeyDown=${(event) => move(event, place.current)} onFocusIn=${(event) => remember(event, place.current)} onClick=${choose}>
      ${domains.map((domain, index) => html`<${Domain} key=${index + domain.name} domain=${domain} page=${page}
        stop=${index === stop.domain ? stop.name : ''} chosen=${index === stop.domain ? chosen : ''} />`)}
    </div>`;
}

// The node that Tab reaches, and its domain: the chosen one, else the first.
function tabStop(domains, chosen) {
  const found = chosen ? domains.findIndex((domain) => domain.nodes.some(([name]) => name === chosen)) : -1;
  if (found >= 0) return { domain: found, name: chosen };
  const first = domains.findIndex((domain) => domain.nodes.length);
  return { domain: first, name: first < 0 ? '' : domains[first].nodes[0][0] };
}

// A domain is made again only if something of it differs.
function Domain({ domain, page, stop, chosen }) {
  const content = useMemo(() => JSON.stringify(domain), [domain]);
  return useMemo(() => html`<section class=${`domain level-${Math.min(domain.depth, 6)} ${domain.nodes.length ? 'leaf' : ''}`} aria-label=${`${domain.level} ${domain.name}`}>
    <${Heading} domain=${domain} page=${page} />
    ${domain.nodes.length > 0 && html`<div class="nodes" role="group" aria-label=${`Nodes of ${domain.level} ${domain.name}`}>
      ${domain.nodes.map((node) => nodeButton(node, page, stop, chosen))}</div>`}
  </section>`, [content, page.resource, stop, chosen]);
}

function Heading({ domain, page }) {
  const used = domain.free == null ? null : domain.total - domain.unusable - domain.free;
  const tag = `h${Math.min(domain.depth + 2, 6)}`;
  const facts = [plural(domain.nodeCount, 'node')];
  if (domain.free != null) facts.push(`${amount(page.resource, domain.free)} of ${amount(page.resource, domain.total)} ${short(page.resource)} free`, `${plural(domain.freeWholeNodes, 'whole node')}`);
  else facts.push(`${amount(page.resource, domain.total)} ${short(page.resource)}`);
  if (domain.unusable) facts.push(`${amount(page.resource, domain.unusable)} unusable`);
  if (domain.fragmentation) facts.push(`${domain.fragmentation} % of it on nodes in use`);
  return html`<div class="head"><${tag}>${domain.name ? html`<span class="kind">${domain.level}</span> ${domain.name}` : 'Cluster'}<//>
    ${used != null && html`<${Bar} parts=${[['used', used], ['unusable', domain.unusable]]} whole=${domain.total} text=${facts.join(', ')} />`}
    <span class="kind">${facts.join(' · ')}</span>
    ${domain.nodes.length > 0 && domain.gangs.length > 0 && html`<span class="who">${domain.gangs.map((gang) => `${gang.namespace}/${gang.name} ×${gang.pods}`).join(', ')}${domain.gangCount > domain.gangs.length ? ` and ${domain.gangCount - domain.gangs.length} more` : ''}</span>`}</div>`;
}

// No component, and no listener of its own: there may be 10,000.
function nodeButton([name, total, free, condition, takesPods, gangs], page, stop, chosen) {
  const what = page.conditions[condition];
  const tone = !takesPods ? 'faulty' : free == null ? 'unknown' : free === 0 ? 'full' : free === total ? 'free' : 'partly';
  const text = `${name}: ${free == null ? '' : `${amount(page.resource, free)} of `}${amount(page.resource, total)} ${short(page.resource)}${free == null ? '' : ' free'}, ${takesPods ? what : what === 'Ready' ? 'tainted' : what}, ${plural(gangs, 'gang')}`;
  const shown = !takesPods ? '×' : free == null ? '·' : page.resource === 'cpu' || page.resource === 'memory' ? `${Math.round((100 * free) / (total || 1))}` : free;
  return html`<button type="button" class=${`node ${tone}`} data-node=${name} aria-label=${text} title=${text} tabindex=${name === stop ? 0 : -1} aria-pressed=${name === chosen ? 'true' : 'false'}>${shown}</button>`;
}

function choose(event) {
  const node = event.target.closest('.node');
  if (node) changeQuery({ node: node.getAttribute('aria-pressed') === 'true' ? '' : node.dataset.node });
}

// One node of the map can be reached with Tab; it is the last one that had the focus.
function remember(event, map) {
  if (!event.target.matches('.node')) return;
  for (const each of map.querySelectorAll('.node[tabindex="0"]')) each.tabIndex = -1;
  event.target.tabIndex = 0;
}

function move(event, map) {
  const node = event.target.closest('.node');
  if (!node || event.ctrlKey || event.altKey || event.metaKey) return;
  const group = node.parentElement;
  const others = [...group.children];
  const at = others.indexOf(node);
  const groups = () => [...map.querySelectorAll('.nodes')];
  const beside = (step) => { const all = groups(); return all[all.indexOf(group) + step]; };
  let to = null;
  if (event.key === 'ArrowRight') to = node.nextElementSibling || beside(1)?.firstElementChild;
  else if (event.key === 'ArrowLeft') to = node.previousElementSibling || beside(-1)?.lastElementChild;
  else if (event.key === 'ArrowDown') { const next = beside(1); to = next && next.children[Math.min(at, next.children.length - 1)]; }
  else if (event.key === 'ArrowUp') { const before = beside(-1); to = before && before.children[Math.min(at, before.children.length - 1)]; }
  else if (event.key === 'Home') [to] = others;
  else if (event.key === 'End') to = others.at(-1);
  else return;
  event.preventDefault();
  if (to) { to.focus(); to.scrollIntoView({ block: 'nearest' }); }
}

function NodePanel({ name, live }) {
  const state = usePage('node', { name }, live);
  const place = useRef(null);
  useEffect(() => { place.current?.scrollIntoView({ block: 'nearest' }); }, []);
  return html`<section class="panel" aria-label=${`Node ${name}`} ref=${place}>
    <h2>Node ${name}</h2>
    <${Loaded} state=${state}>${({ node, path, lostDeviceSeconds }) => html`
      <dl class="facts">
        <div><dt>Condition</dt><dd><${State} state=${node.condition} /> ${[...node.faults, ...node.avoided].join('; ')}</dd></div>
        ${path.length > 0 && html`<div><dt>Where</dt><dd>${path.join(' / ')}</dd></div>`}
        <div><dt>Allocatable</dt><dd>${amounts(node.allocatable)}</dd></div>
        ${node.free && html`<div><dt>Free</dt><dd>${amounts(node.free) || 'nothing'}</dd></div>`}
        ${lostDeviceSeconds > 0 && html`<div><dt>Lost by draining</dt><dd>${span(lostDeviceSeconds)} of devices</dd></div>`}
      </dl>
      ${node.gangs.length ? html`<${Table} hidden caption="Gangs on this node" head=${['Gang', 'Pods', 'Without them', 'Lost']}>
        ${node.gangs.map((gang) => html`<tr><th scope="row"><a href=${link('/gang', { namespace: gang.namespace, kind: gang.kind, name: gang.name })}>${gang.namespace}/${gang.name}</a> <span class="kind">${gang.kind}</span></th>
          <td class="amount">${gang.pods}</td><td>${gang.stops ? 'all of it stops' : 'it continues'}</td><td>${span(gang.lostSeconds)}</td></tr>`)}<//>` : html`<${Nothing}>No gang that you may see is there.<//>`}`}<//>
    <button type="button" onClick=${() => { changeQuery({ node: '' }); document.querySelector(`[data-node="${CSS.escape(name)}"]`)?.focus(); }}>Close</button></section>`;
}
