// The table of runs, and the curves of loss and metrics.

function addRuns() {
  const section = addCard({id: 'runs', title: 'Runs', isWide: true,
    text: `Times and bytes are per batch, without the first ` +
      `${data.warm_up}; speedup: mean time of the first run divided by this ` +
      `run's.`});
  const mean = (run, key) => run.statistics[key]?.mean;
  const first = mean(runs[0], 'batch_duration');
  const columns = [{name: 'Run'}, {name: 'Ranks', kind: 'number'},
    {name: 'Steps', kind: 'number'}, {name: 'Median (ms)', kind: 'number'},
    {name: 'p95 (ms)', kind: 'number'}, {name: 'Speedup', kind: 'number'},
    {name: 'Sent by rank 0', kind: 'number'},
    {name: 'Validation', kind: 'number'}, {name: 'Test', kind: 'number'},
    {name: 'Wall time (s)', kind: 'number'}, {name: 'Status'}];
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
      run.ending || 'no summary.json: still running, or aborted'];
  }));
  for (const run of runs)
    if (run.note) section.append(make('p', {textContent: run.note}));
}

const METRICS = ['loss', 'accuracy', 'precision', 'recall', 'f1',
                 'learning_rate'];

// The kinds of curves of a metric.
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
  const x = over === 'step' ? 'step' : 'training time (s)';
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
      text: 'No run has a loss in log.jsonl, the source of this chart.'});
  const every = Math.max(...runs.map((run) => run.batch?.every ?? 1));
  addCard({id: 'learning', title: 'Loss and metrics', isWide: true,
    text: 'Thin: each batch' + (every > 1 ? ` (means of ${every})` : '') +
      '; thick: entire training set; dashed: validation.',
    controls: [['metric', known.map((key) => [key, key.replace('_', ' ')])],
               ['over', [['step', 'steps'], ['seconds', 'training time']]],
               ['scale', [['value', 'linear'], ['log', 'logarithmic']]]],
    option: learningOption});
}
