// The cost of the plans, and the steps from the fastest to the chosen one.

function addSteps() {
  if (data.steps.length === 0) return;
  const first = data.steps[0].step_ms;
  const section = addCard({id: 'steps', title: 'Plans', isWide: true,
    text: 'Predicted step. The indicator estimates what rounding adds to the ' +
      'variance of the gradients; f32 is 0.' +
      data.notes.map((one) => ` Note: ${one}.`).join('')});
  const memory = data.devices.length > 1 ?
    data.devices.map((name) => `Peak, ${name}`) : ['Peak memory'];
  const hasExchange = data.steps.some((one) => one.exchange_ms > 0);
  const number = (name) => ({name, kind: 'number'});
  const body = addTable(section, [{name: 'Plan'}, number('Step (ms)'),
    number('Speedup'), ...(hasExchange ? [number('Exchange (ms)')] : []),
    ...memory.map(number), number('Indicator')],
    data.steps.map((one) => [one.name, numberText(one.step_ms),
      one.step_ms > 0 ? (first / one.step_ms).toFixed(2) + '×' : '–',
      ...(hasExchange ? [numberText(one.exchange_ms)] : []),
      ...memory.map((_, i) => bytesText((one.peak_mib[i] ?? null) &&
                                        one.peak_mib[i] * 1048576)),
      numberText(one.indicator)]));
  data.steps.forEach((one, i) => {
    if (one.is_chosen) body.children[i].className = 'chosen';
  });
}

function pointsOf(name, points, color, more) {
  return {name, type: 'scatter', symbolSize: 10, itemStyle: {color: color},
          data: points.map((one) => ({value: [one.step_ms, one.indicator],
                                      label: one.text ?? one.label})),
          ...more};
}

function tradeOffOption({show}) {
  const isSearch = show === 'steps';
  const kept = data.trade_offs.filter((one) => one.is_kept);
  const refused = data.trade_offs.filter((one) => !one.is_kept);
  const others = data.steps.filter((one) => !one.is_chosen &&
    one.indicator !== null).map((one) => ({...one, text: one.name}));
  const chosenSteps = data.steps.filter((one) => one.is_chosen).map((one) =>
    ({...one, text: one.name}));
  const named = {label: {show: true, position: 'right', color: theme.text,
    fontSize: 12, formatter: ({data: point}) => point.label},
    labelLayout: {hideOverlap: true}};
  const series = [
    pointsOf('refused', refused, colorAt(7), {symbol: 'diamond',
      symbolSize: 8}),
    pointsOf('kept', kept, colorAt(0), {type: 'line', showSymbol: true,
      symbol: 'circle', symbolSize: 7,
      lineStyle: {color: colorAt(0), width: 1.5}}),
    pointsOf('other plans', others, colorAt(1), {symbol: 'triangle',
      symbolSize: 12, ...named}),
    pointsOf('chosen', chosenSteps, colorAt(2), {symbol: 'pin',
      symbolSize: 26, ...named}),
  ].filter((one) => one.data.length > 0 &&
    !(isSearch && one.name === 'other plans'));
  return {
    legend: {data: series.map((one) => one.name)},
    tooltip: {formatter: ({data: {value, label}, seriesName}) => head(label) +
      `${numberText(value[0])} ms, indicator ${numberText(value[1])}` +
      `<div>${encode(seriesName)}</div>`},
    grid: {left: 12, right: 70, top: 56, bottom: 34, containLabel: true},
    xAxis: xAxisOf('step (ms)', {scale: true, min: null, max: null,
      axisLabel: {showMinLabel: true, showMaxLabel: true},
      splitLine: {lineStyle: {color: theme.grid}}}),
    yAxis: yAxisOf('indicator', '', isSearch ? {scale: true} : {min: 0}),
    series,
  };
}

function addTradeOff() {
  if (data.trade_offs.length < 2) return;
  addCard({id: 'tradeoff', title: 'Time against indicator', isWide: true,
    text: 'Starting from the fastest plan, layers are raised to a higher ' +
      'precision one by one, the most sensitive first. Changes that make the ' +
      'step too slow or need too much memory are refused.',
    controls: [['show', [['all', 'with other plans'],
                         ['steps', 'search steps only']]]],
    height: () => 380, option: tradeOffOption});
}
