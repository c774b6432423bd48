// The bytes by layer and route, and the effective rank.

const routeColor = (route) =>
  colorAt(route in ROUTES ? ROUTES[route] : 3 + route.length % 4);

const hasBytes = (run) =>
  run.layers?.layers.some((layer) => layer.bytes !== null);

// Bytes per batch by route; one total if the layers are not recorded.
function bytesByRoute(run) {
  const sums = new Map();
  if (!hasBytes(run)) {
    const sent = run.statistics.bytes_sent?.mean;
    if (sent !== undefined) sums.set('not recorded', sent);
    return sums;
  }
  for (const {route, bytes} of run.layers.layers)
    sums.set(route, (sums.get(route) ?? 0) + (bytes ?? 0));
  return sums;
}

const bytesAxis = (largest) => xAxisOf('bytes per batch', {min: 0, max: null,
  splitLine: {lineStyle: {color: theme.grid}}, interval: bytesStep(largest),
  axisLabel: {formatter: bytesText, showMinLabel: true}});

const bytesTooltip = (more = () => '') => ({trigger: 'axis',
  axisPointer: {type: 'shadow'}, formatter: (items) => head(items[0].name) +
    items.filter((item) => item.value).map((item) => entry(item,
      `${encode(item.seriesName)}: ${bytesText(item.value)}`)).join('') +
    more(items[0].dataIndex)});

function bytesOfRuns() {
  const sums = runs.map(bytesByRoute);
  const routes = [...new Set(sums.flatMap((one) => [...one.keys()]))];
  return {
    legend: {data: routes},
    tooltip: bytesTooltip(),
    xAxis: bytesAxis(Math.max(...sums.map((one) =>
      [...one.values()].reduce((sum, value) => sum + value, 0)))),
    yAxis: runAxis(runs.map((run) => run.label)),
    series: routes.map((route) => barSeries(route, routeColor(route),
      sums.map((one) => one.get(route) ?? 0))),
  };
}

function bytesOfLayers(run) {
  const layers = run.layers.layers;
  const routes = [...new Set(layers.map((layer) => layer.route))];
  return {
    legend: {data: routes},
    tooltip: bytesTooltip((i) => layers[i].reason ?
      `<div style="white-space:normal;max-width:260px">` +
      `${encode(layers[i].reason)}</div>` : ''),
    xAxis: bytesAxis(Math.max(...layers.map((layer) => layer.bytes ?? 0))),
    yAxis: runAxis(layers.map((layer) => layer.name)),
    series: routes.map((route) => barSeries(route, routeColor(route),
      layers.map((layer) => layer.route === route ? layer.bytes : 0))),
  };
}

function addRoutes(section, known) {
  for (const i of known) {
    const details = make('details', {},
      make('summary', {textContent: `Routes of ${runs[i].label}`}));
    addTable(details, [{name: 'Layer'}, {name: 'Route'},
      {name: 'Rows', kind: 'number'}, {name: 'In × out', kind: 'number'},
      {name: 'Bytes', kind: 'number'}, {name: 'Exchange (ms)', kind: 'number'},
      {name: 'Gradient (ms)', kind: 'number'}, {name: 'Reason', kind: 'long'}],
      runs[i].layers.layers.map((layer) => [layer.name, layer.route,
        numberText(layer.rows),
        layer.in ? `${layer.in} × ${layer.out}` : '–',
        bytesText(layer.bytes),
        numberText(layer.exchange_ms), numberText(layer.gradient_ms),
        layer.reason || '–']));
    section.append(details);
  }
}

function addBytes() {
  const told = runs.map((run, i) => i).filter((i) => hasBytes(runs[i]));
  const counted = runs.some((run) => run.statistics.bytes_sent);
  const source = 'Bytes by layer come from rows of kind "layers" in ' +
    'log.jsonl, routes from routes.json.';
  let section;
  if (told.length === 0 && !counted) {
    section = addCard({id: 'bytes', title: 'Bytes by layer and route',
      text: `No run recorded bytes. ${source}`});
  } else {
    const views = [...told.map((i) => [i, runs[i].label]),
                   ['all', 'all runs, by route']];
    if (runs.length > 1) views.unshift(views.pop());
    section = addCard({id: 'bytes', title: 'Bytes by layer and route',
      text: 'Mean per batch, sent by rank 0.' + (told.length ?
        notShown(told, 'no rows of kind "layers" in log.jsonl',
                 'Layers not recorded') :
        ` No run recorded its layers. ${source}`),
      controls: [['show', views]],
      height: ({show}) => Math.max(220, 130 + 34 * (show === 'all' ?
        runs.length : runs[show].layers.layers.length)),
      option: ({show}) => show === 'all' ? bytesOfRuns() :
                                           bytesOfLayers(runs[show])});
  }
  addRoutes(section, runs.map((run, i) => i).filter((i) => runs[i].layers));
}

function ranksOption({run}) {
  const {step, layers} = runs[run].layers;
  const known = layers.filter((layer) => layer.rank);
  return {
    legend: {data: known.map((layer) => layer.name)},
    tooltip: {trigger: 'axis', formatter: (items) =>
      head('step ' + numberText(items[0].value[0])) + items.map((item) =>
        entry(item, `${encode(item.seriesName)}: ${numberText(item.value[1])}`))
        .join('')},
    xAxis: xAxisOf('step'),
    yAxis: yAxisOf('effective rank', '', {min: 0, minInterval: 1}),
    series: known.map((layer, i) => lineSeries(layer.name, i,
      pairs(step, layer.rank), {step: 'end', connectNulls: true})),
  };
}

function addRanks() {
  const known = runs.map((run, i) => i).filter((i) =>
    runs[i].layers?.layers.some((layer) => layer.rank));
  if (known.length === 0)
    return addCard({id: 'ranks', title: 'Effective rank by layer',
      text: 'No run recorded ranks. They are the key "rank" of layers with ' +
        'the route rank-dad, in rows of kind "layers" in log.jsonl.'});
  addCard({id: 'ranks', title: 'Effective rank by layer',
    text: 'Number of factors that each layer sent.' +
      notShown(known, 'no key "rank" in log.jsonl'),
    controls: [['run', runChoices(known)]], option: ranksOption});
}
