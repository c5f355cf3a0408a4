// The tree of queues, and shares over time.
import { amount, Bar, changeQuery, decimal, html, link, Loaded, Nothing, short, Table, useEffect, usePage, useRef } from '../lib.js';

export function Queues({ query, live }) {
  const resource = query.get('resource') || '';
  const state = usePage('queues', resource ? { resource } : {}, live);
  return html`<h1>Queues</h1><${Loaded} state=${state}>${(page) => {
    const chosen = query.get('queue') || page.queues[0]?.name || '';
    return html`
      <form class="filters" onSubmit=${(event) => event.preventDefault()}>
        <label>Resource <select value=${page.resource} onChange=${(event) => changeQuery({ resource: event.currentTarget.value })}>
          ${page.resources.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      </form>
      ${page.queues.length ? html`<${QueueRows} caption="All queues, parents before their children" rows=${page.queues} resource=${page.resource} />`
        : html`<${Nothing}>${page.leftOut || 'There are no queues.'}<//>`}
      ${page.queues.length > 0 && html`<section aria-labelledby="time"><h2 id="time">Shares over time</h2>
        <form class="filters" onSubmit=${(event) => event.preventDefault()}>
          <label>Queue <select value=${chosen} onChange=${(event) => changeQuery({ queue: event.currentTarget.value })}>
            ${page.queues.map((row) => html`<option value=${row.name}>${row.name}</option>`)}</select></label>
        </form>
        <${Shares} page=${page} queue=${chosen} />
      </section>`}`;
  }}<//>`;
}

export function QueueRows({ rows, resource, caption }) {
  const of = (part) => part[resource] || 0;
  const whole = Math.max(1, ...rows.map((row) => Math.max(of(row.used), of(row.guarantee), of(row.fairShare), of(row.limit))));
  return html`<${Table} caption=${caption} head=${['Queue', `${short(resource)} in use`, '#Used', '#Guarantee', '#Fair share', '#Borrowed', '#Limit', '#Weight', '#Waiting', 'State']}>
    ${rows.map((row) => {
      const used = of(row.used);
      const owned = Math.min(used, of(row.guarantee));
      const text = `${row.name}: ${amount(resource, used)} in use, fair share ${amount(resource, of(row.fairShare))}`;
      return html`<tr key=${row.name}><th scope="row" class=${`depth depth-${Math.min(row.depth, 6)}`}><a href=${link('/gangs', { queue: row.name })}>${row.name}</a></th>
        <td><${Bar} parts=${[['owned', owned], ['used', used - owned]]} whole=${whole} mark=${resource in row.fairShare ? of(row.fairShare) : null} text=${text} /></td>
        <td class="amount">${amount(resource, used)}</td>
        <td class="amount">${resource in row.guarantee ? amount(resource, row.guarantee[resource]) : '–'}</td>
        <td class="amount">${resource in row.fairShare ? amount(resource, row.fairShare[resource]) : '–'}</td>
        <td class="amount">${amount(resource, of(row.borrowed)) || '0'}</td>
        <td class="amount">${resource in row.limit ? amount(resource, row.limit[resource]) : '–'}</td>
        <td class="amount">${row.weight}</td>
        <td class="amount">${decimal(row.pendingGangs)}</td>
        <td class="text">${row.state}${row.problems.map((problem) => html` <span class="warning">${problem}</span>`)}</td></tr>`;
    })}<//>
    <p class="legend"><span class="swatch owned"></span> within the guarantee <span class="swatch used"></span> borrowed <span class="swatch mark"></span> fair share</p>`;
}

function Shares({ page, queue }) {
  const place = useRef(null);
  const found = page.shares.find((each) => each.queue === queue);
  const data = found ? [page.times, found.used, found.fairShare] : [[], [], []];
  const signature = JSON.stringify([queue, page.resource, page.times.at(-1), page.times.length]);
  useEffect(() => {
    if (page.times.length < 2) return undefined;
    let chart;
    let ended = false;
    const draw = async () => {
      const { default: uPlot } = await import('../vendor/uplot.mjs');
      if (ended || !place.current) return;
      const style = getComputedStyle(place.current.querySelector('.colours'));
      const colours = { text: style.color, grid: style.borderTopColor, used: style.borderBottomColor, share: style.borderLeftColor, fill: style.backgroundColor };
      const scale = page.resource === 'cpu' ? (each) => (each == null ? null : each / 1000) : (each) => each;
      const axis = { stroke: colours.text, grid: { stroke: colours.grid } };
      chart?.destroy();
      chart = new uPlot({
        width: Math.max(place.current.clientWidth, 200), height: 240,
        cursor: { drag: { x: false, y: false } },
        scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
        axes: [axis, { ...axis, size: 64 }],
        series: [{}, { label: 'used', stroke: colours.used, fill: colours.fill, width: 2 },
          { label: 'fair share', stroke: colours.share, dash: [6, 4], width: 2 }],
      }, [data[0], data[1].map(scale), data[2].map(scale)], place.current);
    };
    draw();
    const resized = new ResizeObserver(() => chart?.setSize({ width: Math.max(place.current?.clientWidth || 0, 200), height: 240 }));
    resized.observe(place.current);
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    return () => { ended = true; resized.disconnect(); themed.disconnect(); chart?.destroy(); };
  }, [signature]);
  const last = (values) => amount(page.resource, values.at(-1) ?? 0);
  if (page.times.length < 2) return html`<${Nothing}>Shares are recorded while the dashboard runs. The second sample follows within a minute.<//>`;
  return html`<div class="chart" role="img" aria-label=${`${queue}: ${last(data[1])} in use now, fair share ${last(data[2])}`} ref=${place}><span class="colours"></span></div>`;
}
