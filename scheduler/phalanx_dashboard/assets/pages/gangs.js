// The table of gangs: filter, sort, a hundred at a time.
import { Ago, amount, changeQuery, decimal, GangName, html, Loaded, Nothing, plural, short, State, Table, usePage } from '../lib.js';

const STATES = ['Waiting', 'Starting', 'Degraded', 'Running', 'Releasing', 'Failed', 'Finished'];
const COLUMNS = [['name', 'Gang'], ['state', 'State'], ['queue', 'Queue'], ['since', 'Since'], ['pods', 'Pods'], ['priority', 'Priority']];

function Heading({ sort, title, query }) {
  const is = query.get('sort') === sort;
  const descending = query.get('order') === 'descending';
  const next = !is ? { sort, order: '' } : !descending ? { sort, order: 'descending' } : { sort: '', order: '' };
  return html`<th scope="col" aria-sort=${is ? (descending ? 'descending' : 'ascending') : null}>
    <button type="button" onClick=${() => changeQuery({ ...next, offset: '' })}>${title}<span aria-hidden="true">${is ? (descending ? ' ▼' : ' ▲') : ''}</span></button></th>`;
}

export function Gangs({ query, live, now }) {
  const asked = {};
  for (const name of ['state', 'queue', 'text', 'sort', 'order', 'offset']) {
    if (query.get(name)) asked[name] = query.get(name);
  }
  const state = usePage('gangs', asked, live);
  const change = (name) => (event) => changeQuery({ [name]: event.currentTarget.value, offset: '' });
  const queues = state.data ? state.data.page.queues : [];
  const queue = query.get('queue') || '';
  return html`<h1>Gangs</h1>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label>Search <input type="search" value=${query.get('text') || ''} onInput=${change('text')} placeholder="name, queue, reason" /></label>
      <label>State <select value=${query.get('state') || ''} onChange=${change('state')}>
        <option value="">all</option>${STATES.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      <label>Queue <select value=${queue} onChange=${change('queue')}>
        <option value="">all</option>${[...new Set([...queues, ...(queue ? [queue] : [])])].map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
    </form>
    <${Loaded} state=${state}>${(page) => html`
      <p role="status">${page.matching === page.total ? plural(page.total, 'gang') : `${decimal(page.matching)} of ${plural(page.total, 'gang')}`}</p>
      ${page.gangs.length ? html`<${GangRows} page=${page} query=${query} now=${now} />` : html`<${Nothing}>No gang matches.<//>`}
      <${Pager} page=${page} />`}<//>`;
}

function GangRows({ page, query, now }) {
  const head = [...COLUMNS.map(([sort, title]) => html`<${Heading} sort=${sort} title=${title} query=${query} />`), `#${short(page.resource)}`, 'Where', 'Reason'];
  return html`<${Table} hidden caption="Gangs" head=${head}>
    ${page.gangs.map((gang) => html`<tr key=${gang.namespace + '/' + gang.kind + '/' + gang.name}>
      <th scope="row"><${GangName} gang=${gang} /></th>
      <td><${State} state=${gang.state} /></td>
      <td>${gang.queue}${gang.position != null ? html` <span class="kind">place ${gang.position}</span>` : ''}</td>
      <td><${Ago} at=${gang.since} now=${now} /></td>
      <td class="amount">${gang.podsRunning}/${gang.pods}</td>
      <td class="amount">${gang.priority}</td>
      <td class="amount">${amount(page.resource, gang.amount)}</td>
      <td>${gang.where}</td>
      <td class="text">${gang.reason && html`<b>${gang.reason}</b> `}${gang.message}
        ${gang.expectedStart && html` <span class="kind">starts <${Ago} at=${gang.expectedStart} now=${now} /></span>`}</td></tr>`)}<//>`;
}

function Pager({ page }) {
  if (page.matching <= page.limit && page.offset === 0) return null;
  const go = (offset) => () => { changeQuery({ offset: offset || '' }); document.querySelector('#main').focus(); scrollTo(0, 0); };
  const end = Math.min(page.offset + page.limit, page.matching);
  return html`<nav class="pager" aria-label="Parts of the table">
    <button type="button" disabled=${page.offset === 0} onClick=${go(Math.max(page.offset - page.limit, 0))}>Previous</button>
    <span>${page.matching ? page.offset + 1 : 0} to ${end} of ${decimal(page.matching)}</span>
    <button type="button" disabled=${end >= page.matching} onClick=${go(page.offset + page.limit)}>Next</button></nav>`;
}
