// Draws the data of the page. A card is a section with a heading, controls and
// a chart; its `option` function makes ECharts' options out of the controls'
// values and the theme's colours. All texts from files go through textContent,
// through ECharts' own labels, or through encodeHTML.
(() => {
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const runs = data.runs;
const page = document.getElementById('page');
const cards = [];

const THEMES = {
  light: {
    text: '#1f2328', faint: '#59636e', edge: '#d1d9e0', grid: '#e4e8ec',
    card: '#ffffff',
    series: ['#0a62c9', '#c2410c', '#0f766e', '#a21caf', '#a16207', '#4d7c0f',
             '#be123c', '#475569'],
  },
  dark: {
    text: '#e6edf3', faint: '#9198a1', edge: '#30363d', grid: '#262c34',
    card: '#151b23',
    series: ['#58a6ff', '#fb923c', '#2dd4bf', '#e879f9', '#facc15', '#a3e635',
             '#fb7185', '#94a3b8'],
  },
};
// Which colour of the series a part or a route has, so that it is the same in
// every chart.
const PARTS = [['data_duration', 'data', 4], ['forward_duration', 'forward', 0],
               ['backward_duration', 'backward', 2],
               ['exchange_duration', 'exchange', 1],
               ['optimizer_duration', 'optimiser', 3], [null, 'other', 7]];
const ROUTES = {gradient: 7, dad: 0, edad: 2, 'rank-dad': 1, 'not told': 4};

let theme = THEMES.light;
const colourAt = (i) => theme.series[i % theme.series.length];

// --- texts ---

const encode = (text) => echarts.format.encodeHTML(String(text));

function numberText(value, digits = 4) {
  if (value === null || value === undefined) return '–';
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  return String(Number(value.toPrecision(digits)));
}

function bytesText(value) {
  if (value === null || value === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; value >= 1024 && i + 1 < units.length; ++i) value /= 1024;
  return `${numberText(value, 3)} ${units[i]}`;
}

const percentText = (value) => value === undefined || value === null ? '–' :
  (100 * value).toFixed(2) + ' %';

// Between ticks that are round in KiB, MiB, ... and about four.
function bytesStep(largest) {
  if (!(largest > 0)) return undefined;
  const unit = 1024 ** Math.floor(Math.log(largest / 4) / Math.log(1024));
  const power = 10 ** Math.floor(Math.log10(largest / 4 / unit));
  const digit = [1, 2, 5, 10].find((one) => one * power * unit >= largest / 4);
  return Math.max(1, digit * power * unit);
}

function unitOf(key) {
  if (/(_duration|_busy|_ms)$/.test(key)) return 'ms';
  return key.startsWith('bytes') ? 'bytes' : '';
}

const valueText = (value, unit) => unit === 'bytes' ? bytesText(value) :
  numberText(value) + (unit && value !== null ? ' ' + unit : '');

// --- parts of the page ---

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function addSelect(controls, name, choices, onChange) {
  const select = make('select', {name});
  for (const [value, text] of choices)
    select.append(make('option', {value, textContent: text}));
  select.addEventListener('change', onChange);
  controls.append(make('label', {}, name, select));
  return select;
}

// `controls` is [[name, [[value, text], ...]], ...]; `option` gets the chosen
// values by name. Without `option` the card has no chart.
function addCard({id, title, text, controls = [], option, height, isWide}) {
  const bar = make('div', {className: 'controls'});
  const section = make('section', {id, className: isWide ? 'wide' : ''},
      make('div', {className: 'heading'}, make('h2', {textContent: title}),
           bar));
  if (text) section.append(make('p', {textContent: text}));
  page.append(section);
  if (!option) return section;
  const place = make('div', {className: 'chart'});
  section.append(place);
  const chart = echarts.init(place, null, {renderer: 'svg'});
  const selects = {};
  const draw = () => {
    const values = {};
    for (const name in selects) values[name] = selects[name].value;
    if (height) {
      place.style.height = height(values) + 'px';
      chart.resize();
    }
    chart.setOption(withDefaults(option(values)), {notMerge: true});
  };
  for (const [name, choices] of controls)
    selects[name] = addSelect(bar, name, choices, draw);
  cards.push({id, chart, draw, place});
  return section;
}

function addTable(section, columns, rows) {
  const head = make('tr');
  for (const column of columns)
    head.append(make('th', {textContent: column.name,
                            className: column.kind || ''}));
  const body = make('tbody');
  for (const row of rows) {
    const line = make('tr');
    row.forEach((cell, i) => {
      const td = make('td', {className: columns[i].kind || ''});
      td.append(cell instanceof Node ? cell : String(cell ?? '–'));
      line.append(td);
    });
    body.append(line);
  }
  section.append(make('div', {className: 'scroll'},
      make('table', {}, make('thead', {}, head), body)));
  return body;
}

// The run's name beside a dot of its colour; colours change with the theme.
function runName(i) {
  const dot = make('span', {className: 'dot'});
  dot.dataset.colour = i;
  return make('span', {}, dot, runs[i].label);
}

const runChoices = (indices) => indices.map((i) => [i, runs[i].label]);

// "Not shown: a, b (no trace.json)." for runs that lack what a chart needs.
function notShown(indices, why, what = 'Not shown') {
  const others = runs.filter((run, i) => !indices.includes(i));
  if (others.length === 0) return '';
  return ` ${what}: ${others.map((run) => run.label).join(', ')} (${why}).`;
}

// --- what all charts have in common ---

function axisStyle() {
  return {
    axisLine: {lineStyle: {color: theme.edge}},
    axisTick: {lineStyle: {color: theme.edge}},
    axisLabel: {color: theme.faint, hideOverlap: true},
    splitLine: {lineStyle: {color: theme.grid}},
    nameTextStyle: {color: theme.faint},
  };
}

function withDefaults(option) {
  const styled = (axis) => axis && {...axisStyle(), ...axis};
  return {
    animation: false,
    color: theme.series,
    textStyle: {color: theme.text, fontFamily: 'inherit'},
    grid: {left: 12, right: 22, top: 56, bottom: 34, containLabel: true},
    ...option,
    legend: option.legend && {
      type: 'scroll', top: 0, left: 0, icon: 'roundRect', itemWidth: 14,
      itemHeight: 10, textStyle: {color: theme.text},
      inactiveColor: theme.faint, pageIconColor: theme.text,
      pageIconInactiveColor: theme.edge, pageTextStyle: {color: theme.faint},
      ...option.legend,
    },
    tooltip: {
      confine: true, backgroundColor: theme.card, borderColor: theme.edge,
      textStyle: {color: theme.text, fontSize: 13}, ...option.tooltip,
    },
    xAxis: styled(option.xAxis),
    yAxis: styled(option.yAxis),
  };
}

const xAxisOf = (name, more = {}) => ({
  type: 'value', name, nameLocation: 'middle', nameGap: 28, min: 'dataMin',
  max: 'dataMax', splitLine: {show: false}, ...more,
  axisLabel: {color: theme.faint, hideOverlap: true, showMinLabel: false,
              showMaxLabel: false, ...more.axisLabel},
});

const yAxisOf = (name, unit, more = {}) => ({
  type: 'value', name, nameLocation: 'end', nameGap: 14,
  nameTextStyle: {color: theme.faint, align: 'left'},
  axisLabel: {color: theme.faint,
              formatter: unit === 'bytes' ? bytesText : undefined},
  ...more,
});

const head = (text) =>
  `<div style="color:${theme.faint}">${encode(text)}</div>`;
const entry = (item, text) => `<div>${item.marker}${text}</div>`;

function lineSeries(name, i, points, more = {}) {
  return {
    name, type: 'line', data: points, showSymbol: points.length === 1,
    symbolSize: 5, itemStyle: {color: colourAt(i)},
    lineStyle: {width: 2, color: colourAt(i), ...more.lineStyle},
    emphasis: {disabled: true},
    ...Object.fromEntries(Object.entries(more)
        .filter(([key]) => key !== 'lineStyle')),
  };
}

const pairs = (xs, ys) => xs.map((x, i) => [x, ys[i]]);

// --- the runs ---

function addRuns() {
  const section = addCard({id: 'runs', title: 'Runs', isWide: true,
    text: `Times and bytes are of a batch, without the first ` +
      `${data.warm_up}; speed-up: the first run's mean time over this one's.`});
  const mean = (run, key) => run.statistics[key]?.mean;
  const first = mean(runs[0], 'batch_duration');
  const columns = [{name: 'Run'}, {name: 'Ranks', kind: 'number'},
    {name: 'Steps', kind: 'number'}, {name: 'Median, ms', kind: 'number'},
    {name: '95 %, ms', kind: 'number'}, {name: 'Speed-up', kind: 'number'},
    {name: 'Sent by rank 0', kind: 'number'},
    {name: 'Validation', kind: 'number'}, {name: 'Test', kind: 'number'},
    {name: 'Whole run, s', kind: 'number'}, {name: 'End'}];
  const quality = (run, part) => {
    const accuracy = run.summary[part + '_accuracy'];
    if (accuracy !== undefined && accuracy !== null)
      return percentText(accuracy);
    const loss = run.summary[part + '_loss'];
    return loss === undefined ? '–' : 'loss ' + numberText(loss);
  };
  addTable(section, columns, runs.map((run, i) => {
    const time = run.statistics.batch_duration;
    return [runName(i), numberText(run.summary.ranks),
      numberText(run.batch?.count), numberText(time?.median),
      numberText(time?.p95),
      time && first ? (first / time.mean).toFixed(2) + '×' : '–',
      bytesText(mean(run, 'bytes_sent')), quality(run, 'validation'),
      quality(run, 'test'), numberText(run.summary.seconds),
      run.ending || 'no summary.json: still going on, or stopped short'];
  }));
  for (const run of runs)
    if (run.note) section.append(make('p', {textContent: run.note}));
}

// --- loss and metrics ---

const METRICS = ['loss', 'accuracy', 'precision', 'recall', 'f1',
                 'learning_rate'];

// The curves of a metric: [run, kind, x, y] with the kinds below.
const KINDS = {
  each: {text: 'batch', line: {width: 1, opacity: 0.45}},
  train: {text: 'training, by epoch', line: {width: 2}},
  validation: {text: 'validation', line: {width: 2, type: 'dashed'}},
};

function curvesOf(metric) {
  const curves = [];
  runs.forEach((run, i) => {
    const add = (kind, rows, key) => {
      if (rows?.columns[key]?.some((value) => value !== null))
        curves.push({i, kind, rows, values: rows.columns[key]});
    };
    add('each', run.batch, metric);
    add('train', run.epoch, 'train_' + metric);
    add('validation', run.epoch, 'validation_' + metric);
  });
  return curves;
}

function learningOption({metric, over, scale}) {
  const series = curvesOf(metric).map(({i, kind, rows, values}) =>
    lineSeries(runs[i].label, i, pairs(rows[over], values), {
      lineStyle: KINDS[kind].line, id: `${i} ${kind}`, connectNulls: true,
      showSymbol: kind !== 'each' && values.length < 40,
      symbol: kind === 'validation' ? 'emptyCircle' : 'circle',
    }));
  const isShare = ['accuracy', 'precision', 'recall', 'f1'].includes(metric);
  const x = over === 'step' ? 'step' : 'training time, s';
  return {
    legend: {data: runs.map((run) => run.label)},
    tooltip: {trigger: 'axis', formatter: (items) =>
      head(`${x} ${numberText(items[0].value[0])}`) + items.map((item) =>
        entry(item, `${encode(item.seriesName)}, ` +
          `${KINDS[item.seriesId.split(' ')[1]].text}: ` +
          numberText(item.value[1]))).join('')},
    xAxis: xAxisOf(x),
    yAxis: yAxisOf(metric.replace('_', ' ') + (isShare ? ' (share)' : ''), '',
                   {type: scale, scale: true}),
    series,
  };
}

function addLearning() {
  const known = METRICS.filter((metric) => curvesOf(metric).length > 0);
  if (known.length === 0)
    return addCard({id: 'learning', title: 'Loss and metrics', isWide: true,
      text: 'No run has a loss in log.jsonl, from which this chart comes.'});
  const every = Math.max(...runs.map((run) => run.batch?.every ?? 1));
  addCard({id: 'learning', title: 'Loss and metrics', isWide: true,
    text: 'Thin: each batch' + (every > 1 ? ` (means of ${every})` : '') +
      '; thick: the whole training set; dashed: validation.',
    controls: [['metric', known.map((key) => [key, key.replace('_', ' ')])],
               ['over', [['step', 'steps'], ['seconds', 'training time']]],
               ['scale', [['value', 'linear'], ['log', 'logarithmic']]]],
    option: learningOption});
}

// --- where the time goes ---

// Means of the parts, and what is left of the batch.
function partsOf(run) {
  const values = PARTS.map(([key]) => run.statistics[key]?.mean ?? 0);
  const whole = run.statistics.batch_duration?.mean ?? 0;
  const known = values.reduce((sum, value) => sum + value, 0);
  values[values.length - 1] = Math.max(0, whole - known);
  return values;
}

// Runs from the top down.
const runAxis = (labels) => ({type: 'category', data: labels, inverse: true,
  axisLabel: {color: theme.text, width: 130, overflow: 'truncate'}});

function barSeries(name, colour, values, more = {}) {
  return {name, type: 'bar', stack: 'all', barMaxWidth: 34,
          itemStyle: {color: colour}, data: values,
          emphasis: {disabled: true}, ...more};
}

function splitBars(indices) {
  const parts = indices.map((i) => partsOf(runs[i]));
  return {
    legend: {data: PARTS.map(([, name]) => name)},
    tooltip: {trigger: 'axis', axisPointer: {type: 'shadow'},
      formatter: (items) => head(items[0].name) + items.map((item) =>
        entry(item, `${item.seriesName}: ${valueText(item.value, 'ms')}`))
        .join('') + `<b>${valueText(items.reduce((sum, item) =>
          sum + item.value, 0), 'ms')}</b>`},
    xAxis: xAxisOf('ms per batch, mean', {min: 0, max: null,
      axisLabel: {showMinLabel: true},
      splitLine: {lineStyle: {color: theme.grid}}}),
    yAxis: runAxis(indices.map((i) => runs[i].label)),
    series: PARTS.map(([, name, colour], k) =>
      barSeries(name, colourAt(colour), parts.map((values) =>
        Number(values[k].toPrecision(6))))),
  };
}

// How many points are left out at the begin: the first batch often takes so
// long that it would hide all others.
const skippedOf = (run) => run.batch.count > data.warm_up ?
  Math.ceil(data.warm_up / run.batch.every) : 0;

function splitAreas(run) {
  const {step, columns} = run.batch;
  const known = PARTS.filter(([key]) => key && columns[key]);
  const rest = step.map((x, i) => Math.max(0, (columns.batch_duration[i] ?? 0) -
    known.reduce((sum, [key]) => sum + (columns[key][i] ?? 0), 0)));
  const shown = [...known, PARTS[PARTS.length - 1]];
  const series = shown.map(([key, name, colour]) =>
    lineSeries(name, colour,
      pairs(step, key ? columns[key] : rest).slice(skippedOf(run)), {
        stack: 'all', areaStyle: {opacity: 0.75}, showSymbol: false,
        lineStyle: {width: 0.5}}));
  return {
    legend: {data: series.map((one) => one.name)},
    tooltip: {trigger: 'axis', formatter: (items) =>
      head('step ' + numberText(items[0].value[0])) + items.map((item) =>
        entry(item, `${item.seriesName}: ${valueText(item.value[1], 'ms')}`))
        .join('')},
    xAxis: xAxisOf('step'), yAxis: yAxisOf('ms per batch', 'ms'), series,
  };
}

function addSplit() {
  const known = runs.map((run, i) => i)
    .filter((i) => runs[i].statistics.batch_duration);
  if (known.length === 0)
    return addCard({id: 'split', title: 'Where the time goes',
      text: 'No run has batch_duration in log.jsonl, from which this comes.'});
  addCard({id: 'split', title: 'Where the time goes',
    text: 'Exchange is what the step waited for; what ran beside the ' +
      'computation is not in it.' +
      notShown(known, 'no batch_duration in log.jsonl'),
    controls: [['show', [['all', 'means of all runs'], ...runChoices(known)]]],
    height: ({show}) =>
      show === 'all' ? Math.max(220, 130 + 46 * known.length) : 340,
    option: ({show}) => show === 'all' ? splitBars(known) :
                                         splitAreas(runs[show])});
}

// --- the time of each batch ---

function sumsOf(values, every) {
  let sum = 0;
  return values.map((value) => sum += (value ?? 0) * every);
}

function timesOption({key, as}) {
  const unit = unitOf(key);
  const isSum = as === 'sum';
  // Sums of times in seconds: minutes of milliseconds cannot be read.
  const factor = isSum && unit === 'ms' ? 0.001 : 1;
  const shown = isSum && unit === 'ms' ? 's' : unit;
  const series = [];
  runs.forEach((run, i) => {
    const column = run.batch?.columns[key];
    if (!column) return;
    const values = isSum ? sumsOf(column, run.batch.every) : column;
    const points = pairs(run.batch.step,
      values.map((value) => value === null ? null : value * factor));
    series.push(lineSeries(run.label, i, points.slice(isSum ? 0 : skippedOf(run)),
      {lineStyle: {width: isSum ? 2 : 1.2}, connectNulls: true}));
  });
  const largest = Math.max(...series.flatMap((one) =>
    one.data.map((point) => point[1] ?? 0)));
  return {
    legend: {data: series.map((one) => one.name)},
    tooltip: {trigger: 'axis', formatter: (items) =>
      head('step ' + numberText(items[0].value[0])) + items.map((item) =>
        entry(item, `${encode(item.seriesName)}: ` +
          valueText(item.value[1], shown))).join('')},
    xAxis: xAxisOf('step'),
    yAxis: yAxisOf((shown || key) + (isSum ? ', summed up' : ' per batch'),
                   unit,
                   unit === 'bytes' ? {interval: bytesStep(largest)} : {}),
    series,
  };
}

function addTimes() {
  const keys = [...new Set(runs.flatMap((run) =>
    Object.keys(run.batch?.columns ?? {}).filter((key) => unitOf(key))))];
  if (keys.length === 0) return;
  keys.sort((a, b) => (b === 'batch_duration') - (a === 'batch_duration'));
  addCard({id: 'times', title: 'Batch by batch',
    text: 'The times and bytes that log.jsonl has. ' + (data.warm_up > 0 ?
      `Each: without the first ${data.warm_up}.` : ''),
    controls: [['key', keys.map((key) => [key, key])],
               ['as', [['each', 'each'], ['sum', 'summed up']]]],
    option: timesOption});
}

// --- bytes by layer and route ---

const routeColour = (route) =>
  colourAt(route in ROUTES ? ROUTES[route] : 3 + route.length % 4);

const hasBytes = (run) =>
  run.layers?.layers.some((layer) => layer.bytes !== null);

// Bytes of a batch by route; where layers are not told, all as one.
function bytesByRoute(run) {
  const sums = new Map();
  if (!hasBytes(run)) {
    const sent = run.statistics.bytes_sent?.mean;
    if (sent !== undefined) sums.set('not told', sent);
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
    series: routes.map((route) => barSeries(route, routeColour(route),
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
    series: routes.map((route) => barSeries(route, routeColour(route),
      layers.map((layer) => layer.route === route ? layer.bytes : 0))),
  };
}

function addRoutes(section, known) {
  for (const i of known) {
    const details = make('details', {},
      make('summary', {textContent: `Routes of ${runs[i].label}`}));
    addTable(details, [{name: 'Layer'}, {name: 'Route'},
      {name: 'Rows', kind: 'number'}, {name: 'In × out', kind: 'number'},
      {name: 'Bytes', kind: 'number'}, {name: 'Exchange, ms', kind: 'number'},
      {name: 'Gradient, ms', kind: 'number'}, {name: 'Why', kind: 'long'}],
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
      text: `No run tells its bytes. ${source}`});
  } else {
    const views = [...told.map((i) => [i, runs[i].label]),
                   ['all', 'all runs, by route']];
    if (runs.length > 1) views.unshift(views.pop());
    section = addCard({id: 'bytes', title: 'Bytes by layer and route',
      text: 'Sent by rank 0 in a batch, the mean.' + (told.length ?
        notShown(told, 'no rows of kind "layers" in log.jsonl',
                 'Layers not told') :
        ` No run tells its layers. ${source}`),
      controls: [['show', views]],
      height: ({show}) => Math.max(220, 130 + 34 * (show === 'all' ?
        runs.length : runs[show].layers.layers.length)),
      option: ({show}) => show === 'all' ? bytesOfRuns() :
                                           bytesOfLayers(runs[show])});
  }
  addRoutes(section, runs.map((run, i) => i).filter((i) => runs[i].layers));
}

// --- effective rank ---

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
      text: 'No run tells ranks. They are the key "rank" of the layers in ' +
        'rows of kind "layers" in log.jsonl, of layers that go by rank-dad.'});
  addCard({id: 'ranks', title: 'Effective rank by layer',
    text: 'How many factors each layer sent.' +
      notShown(known, 'no key "rank" in log.jsonl'),
    controls: [['run', runChoices(known)]], option: ranksOption});
}

// --- one step ---

function drawEvent(parameters, api) {
  const from = api.coord([api.value(1), api.value(0)]);
  const to = api.coord([api.value(1) + api.value(2), api.value(0)]);
  const height = Math.min(26, api.size([0, 1])[1] * 0.7);
  const shape = echarts.graphic.clipRectByRect(
    {x: from[0], y: from[1] - height / 2, width: Math.max(1, to[0] - from[0]),
     height}, parameters.coordSys);
  return shape && {type: 'rect', shape: {...shape, r: 2}, style: api.style()};
}

function timelineOption({run}) {
  const timeline = runs[run].timeline;
  const isMs = timeline.duration_us >= 1000;
  const factor = isMs ? 0.001 : 1;
  const unit = isMs ? 'ms' : 'µs';
  // "all_gather fc1.weight" has the colour of all its kind.
  const kindOf = (event) => event[3].split(' ')[0];
  const kinds = [...new Set(timeline.events.map(kindOf))];
  const colours = {forward: 0, backward: 2, optimizer: 3, checkpoint: 7};
  return {
    legend: {data: kinds},
    tooltip: {formatter: ({data: {value, event}}) => head(event[3]) +
      `${numberText(value[2])} ${unit}, from ${numberText(value[1])} ${unit}` +
      (event[5] ? `<div>${encode(event[5])}</div>` : '')},
    dataZoom: [{type: 'inside', filterMode: 'weakFilter',
                zoomOnMouseWheel: 'ctrl'}],
    xAxis: xAxisOf(`${unit} since the step began`, {min: 0,
      max: timeline.duration_us * factor,
      splitLine: {lineStyle: {color: theme.grid}}}),
    yAxis: runAxis(timeline.rows),
    series: kinds.map((kind, k) => ({
      name: kind, type: 'custom', renderItem: drawEvent,
      itemStyle: {color: colourAt(colours[kind] ?? [1, 4, 5, 6][k % 4])},
      encode: {x: [1, 2], y: 0},
      data: timeline.events.filter((event) => kindOf(event) === kind)
        .map((event) => ({value: [event[0], event[1] * factor,
                                  event[2] * factor], event})),
    })),
  };
}

function addTimeline() {
  const known = runs.map((run, i) => i).filter((i) => runs[i].timeline);
  const source = 'trace.json, which a run writes with output.trace: true';
  if (known.length === 0)
    return addCard({id: 'timeline', title: 'One step', isWide: true,
      text: `No run has a timeline. It comes from ${source}.`});
  addCard({id: 'timeline', title: 'One step', isWide: true,
    text: 'The step whose time is the median, from the end of an optimiser ' +
      'step to the end of the next; Ctrl and the wheel, or two fingers, ' +
      'enlarge it.' + notShown(known, 'no steps in trace.json'),
    controls: [['run', runChoices(known)]],
    height: ({run}) => 150 + 40 * runs[run].timeline.rows.length,
    option: timelineOption});
}

// --- what the runs were told to do ---

function addConfigTable(section, rows) {
  const body = addTable(section, [{name: 'Key'},
    ...runs.map((run) => ({name: run.label, kind: 'long'}))],
    rows.map(({key, values}) => [key, ...values.map((value) =>
      value === null ? '–' : value === '' ? '""' : value)]));
  return body;
}

function addConfig() {
  const different = data.config.filter((row) => row.differs);
  const section = addCard({id: 'config', title: 'Settings', isWide: true,
    text: data.config.length === 0 ? 'No run has a config.yaml.' :
      runs.length === 1 ? 'One run: there is nothing to compare.' :
      different.length === 0 ? 'All runs had the same settings.' :
      `What differs; ${data.config.length - different.length} others are ` +
      'the same.'});
  if (different.length > 0) addConfigTable(section, different);
  if (data.config.length === 0) return;
  const details = make('details', {},
    make('summary', {textContent: 'All settings'}));
  addConfigTable(details, data.config);
  section.append(details);
}

// --- light and dark ---

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const button = document.getElementById('theme');
let chosen = null;  // by the button; null: as the system says

function showTheme() {
  const name = chosen ?? (prefersDark.matches ? 'dark' : 'light');
  theme = THEMES[name];
  document.documentElement.dataset.theme = name;
  button.textContent = name === 'dark' ? 'Light' : 'Dark';
  for (const dot of document.querySelectorAll('.dot'))
    dot.style.background = colourAt(Number(dot.dataset.colour));
  for (const card of cards) card.draw();
}

addRuns();
addLearning();
addSplit();
addTimes();
addBytes();
addRanks();
addTimeline();
addConfig();
button.addEventListener('click', () => {
  chosen = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  showTheme();
});
prefersDark.addEventListener('change', showTheme);
const watcher = new ResizeObserver(() => {
  for (const card of cards) card.chart.resize();
});
watcher.observe(page);
showTheme();
})();
