// The breakdown of the batch time, and the time of each batch.

// The mean time of each part, and of the rest of the batch.
function partsOf(run) {
  const values = PARTS.map(([key]) => run.statistics[key]?.mean ?? 0);
  const whole = run.statistics.batch_duration?.mean ?? 0;
  const known = values.reduce((sum, value) => sum + value, 0);
  values[values.length - 1] = Math.max(0, whole - known);
  return values;
}

// An axis with the runs from top to bottom.
const runAxis = (labels) => ({type: 'category', data: labels, inverse: true,
  axisLabel: {color: theme.text, width: 130, overflow: 'truncate'}});

function barSeries(name, color, values, more = {}) {
  return {name, type: 'bar', stack: 'all', barMaxWidth: 34,
          itemStyle: {color: color}, data: values,
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
    series: PARTS.map(([, name, color], k) =>
      barSeries(name, colorAt(color), parts.map((values) =>
        Number(values[k].toPrecision(6))))),
  };
}

// The number of initial points to omit: the first batch often takes so long
// that the others would be invisible.
const skippedOf = (run) => run.batch.count > data.warm_up ?
  Math.ceil(data.warm_up / run.batch.every) : 0;

function splitAreas(run) {
  const {step, columns} = run.batch;
  const known = PARTS.filter(([key]) => key && columns[key]);
  const rest = step.map((x, i) => Math.max(0, (columns.batch_duration[i] ?? 0) -
    known.reduce((sum, [key]) => sum + (columns[key][i] ?? 0), 0)));
  const shown = [...known, PARTS[PARTS.length - 1]];
  const series = shown.map(([key, name, color]) =>
    lineSeries(name, color,
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
    return addCard({id: 'split', title: 'Time breakdown',
      text: 'No run has batch_duration in log.jsonl, the source of this ' +
        'chart.'});
  addCard({id: 'split', title: 'Time breakdown',
    text: 'Exchange is the time that the step waited for communication; ' +
      'communication that overlaps with computation is not included.' +
      notShown(known, 'no batch_duration in log.jsonl'),
    controls: [['show', [['all', 'means of all runs'], ...runChoices(known)]]],
    height: ({show}) =>
      show === 'all' ? Math.max(220, 130 + 46 * known.length) : 340,
    option: ({show}) => show === 'all' ? splitBars(known) :
                                         splitAreas(runs[show])});
}

// Cumulative sums, from means over `every` batches; the last mean may cover
// fewer.
function sumsOf(values, {every, count}) {
  const last = values.length - 1;
  let sum = 0;
  return values.map((value, i) =>
    sum += (value ?? 0) * (i < last ? every : count - last * every));
}

function timesOption({key, as}) {
  const unit = unitOf(key);
  const isSum = as === 'sum';
  // Cumulative times are shown in seconds.
  const factor = isSum && unit === 'ms' ? 0.001 : 1;
  const shown = isSum && unit === 'ms' ? 's' : unit;
  const series = [];
  runs.forEach((run, i) => {
    const column = run.batch?.columns[key];
    if (!column) return;
    const values = isSum ? sumsOf(column, run.batch) : column;
    const points = pairs(run.batch.step,
      values.map((value) => value === null ? null : value * factor));
    series.push(lineSeries(run.label, i,
      points.slice(isSum ? 0 : skippedOf(run)),
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
    yAxis: yAxisOf((shown || key) + (isSum ? ', cumulative' : ' per batch'),
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
  addCard({id: 'times', title: 'Batches',
    text: 'Times and bytes from log.jsonl. ' + (data.warm_up > 0 ?
      `Per batch: without the first ${data.warm_up}.` : ''),
    controls: [['key', keys.map((key) => [key, key])],
               ['as', [['each', 'per batch'], ['sum', 'cumulative']]]],
    option: timesOption});
}
