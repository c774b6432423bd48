// The timeline of the step, predicted above measured, and its critical path.

// Lanes with the same name are adjacent: predicted, then measured.
function timelineRows() {
  const names = [...new Set(data.timelines.flatMap((one) => one.lanes))];
  const rows = [];
  for (const name of names)
    data.timelines.forEach((one, number) => {
      const lane = one.lanes.indexOf(name);
      if (lane < 0) return;
      rows.push({number, lane, label: data.timelines.length > 1 ?
        `${name}, ${one.name}` : name});
    });
  return rows;
}

function drawBar(parameters, api) {
  const from = api.coord([api.value(1), api.value(0)]);
  const to = api.coord([api.value(1) + api.value(2), api.value(0)]);
  const height = Math.min(26, api.size([0, 1])[1] * 0.72);
  const shape = echarts.graphic.clipRectByRect(
    {x: from[0], y: from[1] - height / 2,
     width: Math.max(0.6, to[0] - from[0]), height}, parameters.coordSys);
  if (!shape) return null;
  const isCritical = api.value(3) > 0;
  const style = {fill: api.visual('color'), opacity: api.value(4)};
  // Marks only the lower edge, so that narrow bars keep their color.
  const line = {type: 'rect', style: {fill: theme.text, opacity: api.value(4)},
    shape: {x: shape.x, width: shape.width, y: shape.y + shape.height - 3,
            height: 3}};
  return {type: 'group', children: [{type: 'rect', shape, style},
                                    ...(isCritical ? [line] : [])]};
}

function barsOf(work, rows, show) {
  const bars = [];
  rows.forEach(({number, lane}, row) => {
    const timeline = data.timelines[number];
    const hasPath = timeline.bars.some((bar) => bar[5]);
    for (const [at, begin, ms, name, kind, isCritical] of timeline.bars) {
      if (at !== lane || kind !== work) continue;
      const isFaint = show === 'path' && hasPath && !isCritical;
      bars.push({value: [row, begin, ms, isCritical, isFaint ? 0.18 : 1],
                 label: timeline.names[name], of: timeline.name});
    }
  });
  return bars;
}

const stepEnds = () => ({silent: true, symbol: 'none', animation: false,
  lineStyle: {color: theme.text, type: 'dashed', width: 1},
  label: {color: theme.faint, fontSize: 11,
          formatter: ({data: {text}}) => text},
  data: data.timelines.map((one, i) => ({xAxis: one.step_ms,
    text: `${one.name} ${numberText(one.step_ms)} ms`,
    label: {position: 'start', align: 'right', offset: [0, -14 * i]}}))});

function planTimelineOption({show}) {
  const rows = timelineRows();
  const works = WORKS.map((_, work) => work).filter((work) =>
    data.timelines.some((one) => one.bars.some((bar) => bar[4] === work)));
  const last = Math.max(...data.timelines.flatMap((one) =>
    [one.step_ms, ...one.bars.map((bar) => bar[1] + bar[2])]));
  const series = works.map((work, i) => ({
    name: WORKS[work][0], type: 'custom', renderItem: drawBar, clip: true,
    itemStyle: {color: workColor(work)}, encode: {x: [1, 2], y: 0},
    data: barsOf(work, rows, show), markLine: i === 0 ? stepEnds() : undefined,
  }));
  return {
    legend: {data: series.map((one) => one.name)},
    tooltip: {formatter: ({data: {value, label, of}, seriesName}) => !value ?
      '' : head(label) + `${encode(seriesName)}, ${encode(of)}` +
      `<div>${numberText(value[2])} ms, from ${numberText(value[1])} ms</div>` +
      (value[3] ? '<div>on the critical path</div>' : '')},
    grid: {left: 12, right: 30, top: 72, bottom: 84, containLabel: true},
    dataZoom: keepZoom('timeline', [
      {type: 'slider', height: 18, bottom: 10, filterMode: 'weakFilter',
       ...zoomStyle()},
      {type: 'inside', filterMode: 'weakFilter', zoomOnMouseWheel: 'ctrl',
       moveOnMouseWheel: false}]),
    xAxis: xAxisOf('ms since the step began', {min: 0, max: 1.005 * last,
      splitLine: {lineStyle: {color: theme.grid}}}),
    yAxis: {type: 'category', inverse: true,
      data: rows.map((row) => row.label),
      axisLabel: {color: theme.text, width: 170, overflow: 'truncate'}},
    series,
  };
}

function addPlanTimeline() {
  if (data.timelines.length === 0) return;
  const names = data.timelines.map((one) => one.name).join(' and ');
  const leftOut = data.timelines.reduce((sum, one) => sum + one.left_out, 0);
  const hasPath = data.timelines.some((one) => one.bars.some((bar) => bar[5]));
  const isAhead = data.timelines.some((one) => one.bars.some((bar) =>
    bar[1] + bar[2] > 1.001 * one.step_ms));
  const rows = timelineRows().length;
  addCard({id: 'timeline', title: 'One step', isWide: true,
    text: `Shown as ${names}. ` + (hasPath ? 'Underlined bars are on the ' +
      'critical path, which determines the step time. ' : '') +
      (isAhead ? 'Kernels end after the thread has ended its step. ' : '') +
      'Zoom with Ctrl and the wheel, two fingers, or the bar below.' +
      (leftOut ?
      ` The ${leftOut} shortest bars are omitted.` : ''),
    controls: hasPath ? [['show', [['all', 'everything'],
                                   ['path', 'critical path']]]] : [],
    height: () => 180 + 36 * rows, option: planTimelineOption});
}

function pathOption() {
  const whole = data.path.reduce((sum, row) => sum + row.ms, 0);
  const sums = WORKS.map((_, work) => data.path.filter((row) =>
    row.work === work).reduce((sum, row) => sum + row.ms, 0));
  const works = WORKS.map((_, work) => work).filter((work) => sums[work] > 0);
  return {
    legend: {data: works.map((work) => WORKS[work][0])},
    tooltip: {formatter: ({seriesName, value}) => head(seriesName) +
      `${numberText(value)} ms, ${percentText(value / whole)}`},
    grid: {left: 12, right: 22, top: 40, bottom: 34, containLabel: true},
    xAxis: xAxisOf('ms', {min: 0, max: whole,
      splitLine: {lineStyle: {color: theme.grid}}}),
    yAxis: {type: 'category', data: ['critical path'],
            axisLabel: {color: theme.text}},
    series: works.map((work) => ({name: WORKS[work][0], type: 'bar',
      stack: 'all', barMaxWidth: 34, itemStyle: {color: workColor(work)},
      emphasis: {disabled: true}, data: [Number(sums[work].toPrecision(6))]})),
  };
}

const MOST_PATH_ROWS = 12;

function addPath() {
  if (data.path.length === 0) return;
  const whole = data.path.reduce((sum, row) => sum + row.ms, 0);
  const section = addCard({id: 'path', title: 'Critical path', isWide: true,
    text: 'The work that determines the time of the predicted step. Work ' +
      'that is not listed could take a little longer without slowing the step.',
    height: () => 150, option: pathOption});
  const rows = (list) => list.map((row) => [row.name, WORKS[row.work][0],
    row.where, numberText(row.ms), percentText(row.ms / whole)]);
  const columns = [{name: 'Name'}, {name: 'Work'}, {name: 'Lane'},
    {name: 'Time (ms)', kind: 'number'}, {name: 'Share', kind: 'number'}];
  addTable(section, columns, rows(data.path.slice(0, MOST_PATH_ROWS)));
  if (data.path.length <= MOST_PATH_ROWS) return;
  const details = make('details', {},
    make('summary', {textContent: `All ${data.path.length}`}));
  addTable(details, columns, rows(data.path));
  section.append(details);
}
