// The timeline of one step.

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
  // "all_gather fc1.weight" has the color of all all_gather events.
  const kindOf = (event) => event[3].split(' ')[0];
  const kinds = [...new Set(timeline.events.map(kindOf))];
  const colors = {forward: 0, backward: 2, optimizer: 3, checkpoint: 7};
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
      itemStyle: {color: colorAt(colors[kind] ?? [1, 4, 5, 6][k % 4])},
      encode: {x: [1, 2], y: 0},
      data: timeline.events.filter((event) => kindOf(event) === kind)
        .map((event) => ({value: [event[0], event[1] * factor,
                                  event[2] * factor], event})),
    })),
  };
}

function ranksLeftOut(known) {
  return known.filter((i) => runs[i].timeline.left_out > 0)
    .map((i) => ` ${runs[i].label}: the first 8 ranks; ` +
      `${runs[i].timeline.left_out} more are left out.`)
    .join('');
}

function addTimeline() {
  const known = runs.map((run, i) => i).filter((i) => runs[i].timeline);
  const source = 'trace.json, which a run writes with output.trace: true';
  if (known.length === 0)
    return addCard({id: 'timeline', title: 'One step', isWide: true,
      text: `No run has a timeline. Its source is ${source}.`});
  addCard({id: 'timeline', title: 'One step', isWide: true,
    text: 'The step with the median time, from the end of one optimizer ' +
      'step to the end of the next. Zoom with Ctrl and the wheel, or two ' +
      'fingers.' + notShown(known, 'no steps in trace.json') +
      ranksLeftOut(known),
    controls: [['run', runChoices(known)]],
    height: ({run}) => 150 + 40 * runs[run].timeline.rows.length,
    option: timelineOption});
}
